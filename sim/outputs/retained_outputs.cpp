#include "sim/outputs/retained_outputs.h"

#include <algorithm>
#include <cmath>

#include "sim/outputs/output_difference.h"

namespace kvsim {
namespace {

// A difference is recomputed in fp64 if its rounding error may exceed 1 / precision of it. The
// limit is stricter where few tokens have to be summed: for caches that miss at most kFewTokens,
// and for those that keep less than half of the attention to tokens, most of which hold few.
constexpr double kPrecision = 5e4;
constexpr double kPrecisionOfFewTokens = 2e5;
constexpr int kFewTokens = kBlockSteps;

// The node of the empty cache: its missing tokens are all tokens, so its sum is the full output.
constexpr int kEmptyCache = 0;

// The first row of the block at which the evicted token is missing.
int first_missing_row(const Eviction& eviction, const AttentionBlock& block) {
  return eviction.step - block.first_step + 1;
}

// See EvictedTerm. A token that is evicted after the last step is missing at none.
bool is_missing_at_middle(const Eviction& eviction, const AttentionBlock& block) {
  return first_missing_row(eviction, block) <= std::min(kMiddleRow, block.num_steps - 1);
}

}  // namespace

void CacheContents::reset(int num_tokens, int num_heads, int num_steps) {
  tokens = TokenSet(num_tokens);
  evictions.clear();
  rescaled.clear();
  weight_sum.setZero(num_heads, num_steps);
  difference.setZero(num_heads, num_steps);
  deltas.reset();
}

const RescaledStep* CacheContents::find_rescaled(int head, int row) const {
  const auto found = std::find_if(rescaled.begin(), rescaled.end(), [&](const RescaledStep& step) {
    return step.head == head && step.row == row;
  });
  return found == rescaled.end() ? nullptr : &*found;
}

CacheContents& RetainedOutputs::add_cache() {
  return *caches_.emplace_back(std::make_unique<CacheContents>(unit_));
}

void RetainedOutputs::compute(AttentionBlock& block) {
  incomplete_.clear();
  for (const auto& contents : caches_) {
    if (contents->difference.hasNaN()) incomplete_.push_back(contents.get());
  }
  if (incomplete_.empty()) return;
  const bool has_outputs = block.heads.front().output.rows() > 0;
  if (!values_) values_.emplace(unit_.value);
  const int num_tokens = block.first_step + block.num_steps;
  missing_.clear();
  missing_.push_back(TokenSet(unit_.num_tokens()).complement(num_tokens));
  for (const CacheContents* contents : incomplete_) {
    TokenSet held = contents->tokens;
    for (const Eviction& eviction : contents->evictions) {
      if (is_missing_at_middle(eviction, block)) held.erase(eviction.token);
    }
    missing_.push_back(held.complement(num_tokens));
  }
  sums_.link(missing_, std::span(&kEmptyCache, has_outputs ? 1 : 0), num_tokens,
             mean_missing_share(block));
  list_evictions(block);
  for (std::size_t head = 0; head < block.heads.size(); ++head) {
    compute_head(block, static_cast<int>(head));
  }
}

void RetainedOutputs::compute_head(AttentionBlock& block, int index) {
  HeadAttention& head = block.heads[index];
  const bool has_output = head.output.rows() > 0;
  const auto value_dim = static_cast<int>(unit_.value.cols());
  if (!has_output) head.output.resize(block.num_steps, value_dim);
  const WeightedValues products{head.weight_by_token, *values_};
  scale_sums(head, index);
  std::vector<StepRow> squares(incomplete_.size(), StepRow{});
  for (int first = 0; first < value_dim; first += TreeSums::kMostDims) {
    const int dims = std::min(TreeSums::kMostDims, value_dim - first);
    if (has_output) use_full_output(head, first, dims);
    sums_.sum(products, first, dims);
    if (!has_output) set_full_output(head, first, dims);
    for (int i = 0; i < static_cast<int>(incomplete_.size()); ++i) {
      add_squared_differences(products, {sums_.rows(i + 1), scales_[i].inverse_kept.data()},
                              evicted_terms_[i], first,
                              {sums_.rows(kEmptyCache), scales_[i].missing_share.data()}, dims,
                              squares[i].data(), incomplete_[i]->deltas.rows_of(index, first));
    }
  }
  if (!has_output) set_output_norms(head);
  finish_differences(block, index, squares);
}

// Per node, over all heads and steps.
std::vector<double> RetainedOutputs::mean_missing_share(const AttentionBlock& block) const {
  const auto num_sums = static_cast<double>(block.heads.size()) * block.num_steps;
  std::vector<double> mean(missing_.size(), 0);
  mean[kEmptyCache] = 1;
  for (std::size_t i = 0; i < incomplete_.size(); ++i) {
    for (std::size_t head = 0; head < block.heads.size(); ++head) {
      const std::vector<double>& all = block.heads[head].weight_sum;
      const double* kept = incomplete_[i]->weight_sum.row(static_cast<int>(head)).data();
      for (int row = 0; row < block.num_steps; ++row) mean[i + 1] += 1 - kept[row] / all[row];
    }
    mean[i + 1] /= num_sums;
  }
  return mean;
}

// With N, W the sums of weighted values and of weights over the kept and the missing tokens,
// o' = N_kept / W_kept, so o - o' = (N_missing - W_missing o) / W_kept.
void RetainedOutputs::scale_sums(const HeadAttention& head, int index) {
  scales_.assign(incomplete_.size(), {});
  for (std::size_t i = 0; i < incomplete_.size(); ++i) {
    const double* kept = incomplete_[i]->weight_sum.row(index).data();
    const double* all = head.weight_sum.data();
    Scales& scales = scales_[i];
    for (std::size_t row = 0; row < head.weight_sum.size(); ++row) {
      scales.kept[row] = kept[row];
      scales.inverse_kept[row] = 1 / kept[row];
      scales.missing_share[row] = (all[row] - kept[row]) / all[row];
    }
  }
}

void RetainedOutputs::finish_differences(const AttentionBlock& block, int index,
                                         const std::vector<StepRow>& squares) {
  const HeadAttention& head = block.heads[index];
  const SumRounding rounding = sum_rounding(block, index);
  const std::vector<StepRow> missing = max_missing_share(block, index);
  std::vector<StepRow> kept;  // computed on demand
  for (std::size_t i = 0; i < incomplete_.size(); ++i) {
    CacheContents& contents = *incomplete_[i];
    const TokenWords tokens = missing_[i + 1].words();
    const bool misses_few = count_common(tokens, tokens) <= kFewTokens;
    const CacheSums sums{squares[i].data(), scales_[i].kept.data(), missing[i + 1].data(),
                         misses_few ? kPrecisionOfFewTokens : kPrecision, kPrecisionOfFewTokens};
    const DifferenceAccuracy accuracy = accuracy_of(rounding, sums);
    for (int row = 0; row < block.num_steps; ++row) {
      double& difference = contents.difference(index, row);
      const auto replace_by = [&](const Eigen::VectorXd& exact) {
        difference = exact.norm();
        contents.deltas.set(index, row, exact);
      };
      if (!std::isnan(difference)) {
        contents.deltas.clear(index, row);
        continue;
      }
      if (const RescaledStep* rescaled = contents.find_rescaled(index, row)) {
        replace_by(output_difference(unit_, head.output.row(row).transpose(), *rescaled));
        continue;
      }
      difference = accuracy.difference[row];
      if (accuracy.is_inaccurate[row] == 0) continue;
      if (kept.empty()) kept = max_kept_share(block, index);
      const double of_kept = rounding_of_sum(rounding, row, kept[i + 1][row]);
      const double kept_share = sums.kept[row] / head.weight_sum[row];
      if (of_kept / kept_share + rounding_of_sum(rounding, row, 1) > accuracy.allowed[row]) {
        replace_by(exact_difference(block, index, contents, row));
      }
    }
  }
}

// Per node, the largest missing share of the attention to tokens on the path from its root: it
// determines the rounding error of the node's sums.
std::vector<RetainedOutputs::StepRow> RetainedOutputs::max_missing_share(
    const AttentionBlock& block, int index) const {
  std::vector<StepRow> most(missing_.size());
  most[kEmptyCache].fill(1);
  for (const auto& [node, parent] : sums_.edges()) {
    if (node == kEmptyCache) continue;
    const StepRow kept = kept_share(block, index, *incomplete_[node - 1], Held::at_both);
    for (int row = 0; row < block.num_steps; ++row) {
      most[node][row] = std::max(1 - kept[row], parent < 0 ? 0 : most[parent][row]);
    }
  }
  return most;
}

// Per node, the largest kept share of that attention on the path between it and the full output.
// The rounding errors of terms that both sums share cancel in the difference of the outputs.
std::vector<RetainedOutputs::StepRow> RetainedOutputs::max_kept_share(const AttentionBlock& block,
                                                                      int index) const {
  std::vector<StepRow> most(missing_.size());
  std::vector<char> is_known(missing_.size(), 0);
  is_known[kEmptyCache] = 1;
  const auto follow = [&](int node, int neighbour) {
    if (is_known[node]) return;
    is_known[node] = 1;
    if (neighbour >= 0) most[node] = most[neighbour];
    if (neighbour < 0) most[node].fill(1);
    const StepRow kept = kept_share(block, index, *incomplete_[node - 1], Held::at_either);
    for (int row = 0; row < block.num_steps; ++row) {
      most[node][row] = std::max(most[node][row], kept[row]);
    }
  };
  std::vector<int> parents(missing_.size(), -1);
  for (const auto& [node, parent] : sums_.edges()) parents[node] = parent;
  for (int node = kEmptyCache; parents[node] >= 0; node = parents[node]) {
    follow(parents[node], node);
  }
  for (const auto& [node, parent] : sums_.edges()) follow(node, parent);
  return most;
}

// The share of the attention to the tokens that the cache holds both at the step and in the middle
// of the block, or at either.
RetainedOutputs::StepRow RetainedOutputs::kept_share(const AttentionBlock& block, int index,
                                                     const CacheContents& contents,
                                                     Held held) const {
  const HeadAttention& head = block.heads[index];
  StepRow kept{};
  for (int row = 0; row < block.num_steps; ++row) {
    kept[row] = contents.weight_sum(index, row) - head.sink_weight[row];
  }
  for (const Eviction& eviction : contents.evictions) {
    const float* weight = head.weight_by_token.row(eviction.token);
    const int next = std::min(first_missing_row(eviction, block), block.num_steps);
    if (is_missing_at_middle(eviction, block)) {
      for (int row = 0; held == Held::at_both && row < next; ++row) kept[row] -= weight[row];
    } else {
      for (int row = next; held == Held::at_either && row < block.num_steps; ++row) {
        kept[row] += weight[row];
      }
    }
  }
  for (int row = 0; row < block.num_steps; ++row) kept[row] /= head.token_sum(row);
  return kept;
}

void RetainedOutputs::use_full_output(const HeadAttention& head, int first_dim, int dims) {
  double* full = sums_.rows(kEmptyCache);
  std::fill_n(full, dims * kBlockSteps, 0.0);
  for (int d = 0; d < dims; ++d) {
    for (int row = 0; row < head.output.rows(); ++row) {
      full[d * kBlockSteps + row] = head.output(row, first_dim + d) * head.weight_sum[row];
    }
  }
}

void RetainedOutputs::set_full_output(HeadAttention& head, int first_dim, int dims) {
  const double* full = sums_.rows(kEmptyCache);
  for (int d = 0; d < dims; ++d) {
    for (int row = 0; row < head.output.rows(); ++row) {
      head.output(row, first_dim + d) = full[d * kBlockSteps + row] / head.weight_sum[row];
    }
  }
}

void RetainedOutputs::list_evictions(const AttentionBlock& block) {
  evicted_terms_.resize(std::max(evicted_terms_.size(), incomplete_.size()));
  for (std::size_t i = 0; i < incomplete_.size(); ++i) {
    evicted_terms_[i].clear();
    for (const Eviction& eviction : incomplete_[i]->evictions) {
      const int next = first_missing_row(eviction, block);
      if (next >= block.num_steps) break;
      evicted_terms_[i].push_back({eviction.token, next});
    }
  }
}

Eigen::VectorXd RetainedOutputs::exact_difference(const AttentionBlock& block, int index,
                                                  const CacheContents& contents, int row) const {
  const int step = block.first_step + row;
  TokenSet tokens = contents.tokens;
  for (const Eviction& eviction : contents.evictions) {
    if (eviction.step < step) tokens.erase(eviction.token);
  }
  std::vector<std::int32_t> attended;
  for_each_token_of(tokens, step + 1, true, [&](auto token) { attended.push_back(token); });
  return output_difference(unit_, block, index, row, attended, contents.weight_sum(index, row));
}

}  // namespace kvsim
