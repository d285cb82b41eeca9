#include "sim/core/retained_outputs.h"

#include <algorithm>
#include <cmath>

#include "sim/core/output_difference.h"

namespace kvsim {
namespace {

// Dimensions that are summed at a time, so that the sums of all caches stay in the processor's own
// memory.
constexpr int kTileDims = 24;

constexpr int kDeparturesAtOnce = 128;

// A difference that rounding might change by more than a part in so many is computed for itself.
// What keeps less than half of the attention tends to keep few tokens, which are soon summed up.
constexpr double kPartsIfMostIsKept = 2e4;
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
    departed_weights_.resize(kDeparturesAtOnce, kBlockSteps);
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
  std::vector<StepRow> squares(lacking_.size(), StepRow{});
  for (int first = 0; first < value_dim; first += kTileDims) {
    const int dims = std::min(kTileDims, value_dim - first);
    if (has_output) use_full_output(head, first, dims);
    sum_tile(first, dims);
    if (!has_output) set_full_output(head, first, dims);
    for (std::size_t i = 0; i < lacking_.size(); ++i) {
      add_departures(*lacking_[i], block, head, first, dims, sums_[i + 1]);
      add_squares(head, *lacking_[i], index, dims, sums_[i + 1], squares[i]);
    }
  }
  if (!has_output) measure_outputs(head);
  finish_differences(block, index, squares);
}

// With N, W the sums of weighted values and of weights, over what is kept and what is missing,
// o' = N_kept / W_kept, and so o - o' = (N_missing - W_missing o) / W_kept.
void RetainedOutputs::add_squares(const HeadAttention& head, const Holding& holding, int index,
                                  int dims, const Sums& sums, StepRow& squares) const {
  StepRow missing_scale{};
  StepRow full_scale{};
  for (int row = 0; row < head.output.rows(); ++row) {
    const double kept = holding.weight_sum(index, row);
    missing_scale[row] = 1 / kept;
    full_scale[row] = (head.weight_sum[row] - kept) / (kept * head.weight_sum[row]);
  }
  add_squared_differences(sums.data(), missing_scale.data(), sums_[kNothingHeld].data(),
                          full_scale.data(), dims, squares.data());
}

void RetainedOutputs::finish_differences(const AttentionBlock& block, int index,
                                         const std::vector<StepRow>& squares) {
  const HeadAttention& head = block.heads[index];
  const std::vector<StepRow> summed = most_summed(head, index);
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
      const double rounding =
          rounding_of_output(block, index, row) * std::sqrt(summed[i + 1][row]) / kept_share;
      const double parts = kept_share < 0.5 ? kPartsIfLittleIsKept : kPartsIfMostIsKept;
      if (difference < parts * rounding) {
        difference = exact_difference(block, index, holding, row);
      }
    }
  }
}

// Per node, the largest share of the attention that any set on the way to it lacks: what the
// rounding of its sums is in proportion to.
std::vector<RetainedOutputs::StepRow> RetainedOutputs::most_summed(const HeadAttention& head,
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
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    Sums& sums = sums_[edges_[i].child];
    if (edges_[i].parent < 0) {
      sums.assign(static_cast<std::size_t>(dims) * kBlockSteps, 0);
    } else {
      sums = sums_[edges_[i].parent];
    }
    add_products(added_[i], first_dim, dims, 1, sums.data());
    add_products(removed_[i], first_dim, dims, -1, sums.data());
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

void RetainedOutputs::add_departures(const Holding& holding, const AttentionBlock& block,
                                     const HeadAttention& head, int first_dim, int dims,
                                     Sums& sums) {
  departed_.clear();
  const auto add = [&] {
    add_products(departed_, first_dim, dims, 1, sums.data());
    departed_.clear();
  };
  for (const Departure& departure : holding.departures) {
    const int row = departure.step - block.first_step;
    if (row + 1 >= block.num_steps) break;
    float* weight = departed_weights_.row(departed_.size());
    const float* from = head.weight_by_token.row(departure.token);
    std::fill_n(weight, row + 1, 0.0F);
    std::copy(from + row + 1, from + kBlockSteps, weight + row + 1);
    departed_.push_back({weight, values_->row(departure.token)});
    if (departed_.size() == kDeparturesAtOnce) add();
  }
  add();
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
