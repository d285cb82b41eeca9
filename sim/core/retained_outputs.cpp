#include "sim/core/retained_outputs.h"

#include <algorithm>
#include <cmath>

#include "sim/core/output_difference.h"

namespace kvsim {
namespace {

// Dimensions that are summed at a time, so that the sums of all caches stay in the processor's own
// memory.
constexpr int kTileDims = 24;

// A difference that rounding might change by more than a part in so many is computed for itself.
// What keeps less than half of the attention tends to keep few tokens, which are soon summed up.
constexpr double kPartsIfMostIsKept = 5e4;
constexpr double kPartsIfLittleIsKept = 2e5;

// The node of the cache that lacks everything: its sum is the full output.
constexpr int kNothingHeld = 0;

}  // namespace

void Holding::reset(int num_tokens, int num_heads, int num_steps) {
  tokens = TokenSet(num_tokens);
  departures.clear();
  rescued.clear();
  weight_sum.setZero(num_heads, num_steps);
  difference.setZero(num_heads, num_steps);
}

const RescuedStep* Holding::find_rescued(int head, int row) const {
  const auto found = std::find_if(rescued.begin(), rescued.end(), [&](const RescuedStep& step) {
    return step.head == head && step.row == row;
  });
  return found == rescued.end() ? nullptr : &*found;
}

Holding& RetainedOutputs::add_holding() {
  return *holdings_.emplace_back(std::make_unique<Holding>());
}

void RetainedOutputs::compute(AttentionBlock& block) {
  lacking_.clear();
  for (const auto& holding : holdings_) {
    if (holding->difference.hasNaN()) lacking_.push_back(holding.get());
  }
  if (lacking_.empty()) return;
  const bool has_outputs = block.heads.front().output.rows() > 0;
  if (!values_) {
    values_ = spread_values(unit_.value);
    nothing_.assign(std::size_t{kTileDims} * kBlockSteps, 0);
  }
  const int num_tokens = block.first_step + block.num_steps;
  missing_.clear();
  missing_.push_back(TokenSet(unit_.num_tokens()).complement(num_tokens));
  for (const Holding* holding : lacking_) {
    missing_.push_back(holding->tokens.complement(num_tokens));
  }
  edges_ = spanning_tree(missing_, std::span(&kNothingHeld, has_outputs ? 1 : 0), num_tokens);
  sums_.resize(std::max(sums_.size(), missing_.size()));
  for (std::size_t head = 0; head < block.heads.size(); ++head) {
    compute_head(block, static_cast<int>(head));
  }
}

void RetainedOutputs::compute_head(AttentionBlock& block, int index) {
  HeadAttention& head = block.heads[index];
  const bool has_output = head.output.rows() > 0;
  const auto value_dim = static_cast<int>(unit_.value.cols());
  if (!has_output) head.output.resize(block.num_steps, value_dim);
  list_terms(head, block.first_step + block.num_steps);
  list_departures(head, block);
  scale_sums(head, index);
  std::vector<StepRow> squares(lacking_.size(), StepRow{});
  for (int first = 0; first < value_dim; first += kTileDims) {
    const int dims = std::min(kTileDims, value_dim - first);
    if (has_output) use_full_output(head, first, dims);
    sum_tile(first, dims);
    if (!has_output) set_full_output(head, first, dims);
    for (std::size_t i = 0; i < lacking_.size(); ++i) {
      add_squared_differences({sums_[i + 1].data(), scales_[i].missing.data()}, departed_[i], first,
                              {sums_[kNothingHeld].data(), scales_[i].full.data()}, dims,
                              squares[i].data());
    }
  }
  if (!has_output) measure_outputs(head);
  finish_differences(block, index, squares);
}

// With N, W the sums of weighted values and of weights, over what is kept and what is missing,
// o' = N_kept / W_kept, and so o - o' = (N_missing - W_missing o) / W_kept.
void RetainedOutputs::scale_sums(const HeadAttention& head, int index) {
  scales_.assign(lacking_.size(), {});
  for (std::size_t i = 0; i < lacking_.size(); ++i) {
    for (std::size_t row = 0; row < head.weight_sum.size(); ++row) {
      const double kept = lacking_[i]->weight_sum(index, static_cast<int>(row));
      scales_[i].missing[row] = 1 / kept;
      scales_[i].full[row] = (head.weight_sum[row] - kept) / (kept * head.weight_sum[row]);
    }
  }
}

void RetainedOutputs::finish_differences(const AttentionBlock& block, int index,
                                         const std::vector<StepRow>& squares) {
  const HeadAttention& head = block.heads[index];
  const std::vector<StepRow> missing = most_missing(head, index);
  std::vector<StepRow> kept;  // if that is not good enough
  for (std::size_t i = 0; i < lacking_.size(); ++i) {
    Holding& holding = *lacking_[i];
    for (int row = 0; row < block.num_steps; ++row) {
      double& difference = holding.difference(index, row);
      if (!std::isnan(difference)) continue;
      if (const RescuedStep* rescued = holding.find_rescued(index, row)) {
        difference = output_difference(unit_, head.output.row(row).transpose(), *rescued);
        continue;
      }
      difference = std::sqrt(squares[i][row]);
      const double kept_share = holding.weight_sum(index, row) / head.weight_sum[row];
      const double parts = kept_share < 0.5 ? kPartsIfLittleIsKept : kPartsIfMostIsKept;
      const double allowed = difference / parts;
      const auto rounding = [&](double share) {
        return rounding_of_sum(block, index, row, share) / kept_share;
      };
      if (rounding(missing[i + 1][row]) <= allowed) continue;
      if (kept.empty()) kept = most_kept(block, index);
      if (rounding(kept[i + 1][row]) + rounding_of_sum(block, index, row, 1) > allowed) {
        difference = exact_difference(block, index, holding, row);
      }
    }
  }
}

// Per node, the largest share of the attention that any set on the way to it lacks: what its sums
// were rounded at.
std::vector<RetainedOutputs::StepRow> RetainedOutputs::most_missing(const HeadAttention& head,
                                                                    int index) const {
  std::vector<StepRow> most(missing_.size());
  most[kNothingHeld].fill(1);
  for (const auto& [node, parent] : edges_) {
    if (node == kNothingHeld) continue;
    for (int row = 0; row < head.output.rows(); ++row) {
      const double kept = lacking_[node - 1]->weight_sum(index, row) / head.weight_sum[row];
      most[node][row] = std::max(1 - kept, parent < 0 ? 0 : most[parent][row]);
    }
  }
  return most;
}

// Per node, the largest share that any set between it and the full output keeps. Of what both sums
// have in common the rounding cancels in the difference of the outputs.
std::vector<RetainedOutputs::StepRow> RetainedOutputs::most_kept(const AttentionBlock& block,
                                                                 int index) const {
  std::vector<StepRow> most(missing_.size());
  std::vector<char> is_known(missing_.size(), 0);
  is_known[kNothingHeld] = 1;
  const auto follow = [&](int node, int neighbour) {
    if (is_known[node]) return;
    is_known[node] = 1;
    if (neighbour >= 0) most[node] = most[neighbour];
    if (neighbour < 0) most[node].fill(1);
    const StepRow kept = kept_at_begin(block, index, *lacking_[node - 1]);
    for (int row = 0; row < block.num_steps; ++row) {
      most[node][row] = std::max(most[node][row], kept[row]);
    }
  };
  std::vector<int> parents(missing_.size(), -1);
  for (const auto& [node, parent] : edges_) parents[node] = parent;
  for (int node = kNothingHeld; parents[node] >= 0; node = parents[node]) {
    follow(parents[node], node);
  }
  for (const auto& [node, parent] : edges_) follow(node, parent);
  return most;
}

// The share of the attention that goes to what the cache held when the block began.
RetainedOutputs::StepRow RetainedOutputs::kept_at_begin(const AttentionBlock& block, int index,
                                                        const Holding& holding) const {
  const HeadAttention& head = block.heads[index];
  StepRow kept{};
  for (int row = 0; row < block.num_steps; ++row) kept[row] = holding.weight_sum(index, row);
  for (const Departure& departure : holding.departures) {
    const float* weight = head.weight_by_token.row(departure.token);
    for (int row = departure.step - block.first_step + 1; row < block.num_steps; ++row) {
      kept[row] += weight[row];
    }
  }
  for (int row = 0; row < block.num_steps; ++row) kept[row] /= head.weight_sum[row];
  return kept;
}

void RetainedOutputs::list_terms(const HeadAttention& head, int num_tokens) {
  added_.resize(std::max(added_.size(), edges_.size()));
  removed_.resize(added_.size());
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    added_[i].clear();
    removed_[i].clear();
    const auto& child = missing_[edges_[i].child].words();
    for (std::int32_t first = 0; first < num_tokens; first += 64) {
      const std::uint64_t here = child[first >> 6];
      const std::uint64_t there =
          edges_[i].parent < 0 ? 0 : missing_[edges_[i].parent].words()[first >> 6];
      const auto term = [&](std::int32_t token) {
        return Term{head.weight_by_token.row(token), values_->row(token)};
      };
      for_each_token(here & ~there, first, [&](auto token) { added_[i].push_back(term(token)); });
      for_each_token(there & ~here, first, [&](auto token) { removed_[i].push_back(term(token)); });
    }
  }
}

void RetainedOutputs::sum_tile(int first_dim, int dims) {
  const std::size_t size = static_cast<std::size_t>(dims) * kBlockSteps;
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    Sums& sums = sums_[edges_[i].child];
    sums.resize(size);
    const double* from = edges_[i].parent < 0 ? nothing_.data() : sums_[edges_[i].parent].data();
    add_products(added_[i], removed_[i], first_dim, dims, from, sums.data());
  }
}

void RetainedOutputs::use_full_output(const HeadAttention& head, int first_dim, int dims) {
  sums_[kNothingHeld].assign(static_cast<std::size_t>(dims) * kBlockSteps, 0);
  for (int d = 0; d < dims; ++d) {
    for (int row = 0; row < head.output.rows(); ++row) {
      sums_[kNothingHeld][d * kBlockSteps + row] =
          head.output(row, first_dim + d) * head.weight_sum[row];
    }
  }
}

void RetainedOutputs::set_full_output(HeadAttention& head, int first_dim, int dims) const {
  for (int d = 0; d < dims; ++d) {
    for (int row = 0; row < head.output.rows(); ++row) {
      head.output(row, first_dim + d) =
          sums_[kNothingHeld][d * kBlockSteps + row] / head.weight_sum[row];
    }
  }
}

void RetainedOutputs::list_departures(const HeadAttention& head, const AttentionBlock& block) {
  departed_.resize(std::max(departed_.size(), lacking_.size()));
  for (std::size_t i = 0; i < lacking_.size(); ++i) {
    departed_[i].clear();
    for (const Departure& departure : lacking_[i]->departures) {
      const int next = departure.step - block.first_step + 1;
      if (next >= block.num_steps) break;
      departed_[i].push_back(
          {head.weight_by_token.row(departure.token), values_->row(departure.token), next});
    }
  }
}

double RetainedOutputs::exact_difference(const AttentionBlock& block, int index,
                                         const Holding& holding, int row) const {
  const int step = block.first_step + row;
  TokenSet tokens = holding.tokens;
  for (const Departure& departure : holding.departures) {
    if (departure.step < step) tokens.erase(departure.token);
  }
  std::vector<std::int32_t> attended;
  for_each_token_of(tokens, step + 1, true, [&](auto token) { attended.push_back(token); });
  return output_difference(unit_, block, index, row, attended, holding.weight_sum(index, row));
}

}  // namespace kvsim
