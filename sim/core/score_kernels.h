#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "policies/score_rule.h"
#include "sim/core/aligned_rows.h"

namespace kvsim {

/// The score of what has left its slot: never the lowest, and no rule changes it.
inline constexpr double kGone = std::numeric_limits<double>::infinity();

/// mean[i] = weight[i] * scale, then mean[i] += weight[i] * scale: what the query heads of a group
/// add to its mean attention, in fp32 without fused operations, so that all who compute it agree to
/// the last bit.
void set_attention(std::span<const float> weight, float scale, float* mean);
void add_attention(std::span<const float> weight, float scale, float* mean);

/// Slots of a cache at one step. All spans are parallel; a slot gets weight * scale of attention.
struct Slots {
  std::span<const std::int32_t> tokens;
  std::span<const float> weight;
  float scale;
  std::span<double> scores;
};

/// Sets every slot that is not gone to its next_score(). Returns the first of the lowest scores of
/// slots begin .. end - 1, or `end` if there are none; only gaps have no lowest score.
std::size_t update_scores(const ScoreRule& rule, const ScoredStep& step, const Slots& slots,
                          std::size_t begin, std::size_t end);

/// The first of the lowest scores. `scores` must not be empty.
std::size_t lowest(std::span<const double> scores);

/// rows[s, i] = by_token[tokens[i], s]: the weights of some tokens at the steps of a block, a row
/// per step.
void gather_rows(const AlignedRows& by_token, std::span<const std::int32_t> tokens,
                 AlignedRows& rows);

/// sum[s] += sign * by_token[token, s] for all `tokens`, in fp64.
void add_rows(const AlignedRows& by_token, std::span<const std::int32_t> tokens, double sign,
              double* sum);

}  // namespace kvsim
