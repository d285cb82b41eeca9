#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "policies/interface/score_rule.h"
#include "sim/kernels/aligned_rows.h"

namespace kvsim {

/// The score of a gap, a slot whose token was evicted: never the lowest, and no rule changes it.
inline constexpr double kEvictedScore = std::numeric_limits<double>::infinity();

/// The factor from weights to one head's share of the mean attention over `num_heads` heads, in
/// fp32.
constexpr float attention_scale(double weight_sum, double num_heads) {
  return static_cast<float>(1 / (weight_sum * num_heads));
}

/// mean[i] = weight[i] * scale for the first query head of a group, mean[i] += weight[i] * scale
/// for the others. In fp32 without fused operations, so that every implementation gets the same
/// bits.
void set_attention(std::span<const float> weight, float scale, float* mean);
void add_attention(std::span<const float> weight, float scale, float* mean);

/// Slots of a cache at one step. All spans are parallel; slot i gets attention weight[i] * scale.
struct Slots {
  std::span<const std::int32_t> tokens;
  std::span<const float> weight;
  float scale;
  std::span<double> scores;
};

/// The first slot with the lowest score, and whether others have the same score.
struct LowestScore {
  std::size_t slot;
  bool is_tied;
};

/// Sets the score of every slot but gaps to its next_score(). Returns the lowest score of the slots
/// in [begin, end); the slot is `end` if the range is empty. Undefined if it holds only gaps.
LowestScore update_scores(const ScoreRule& rule, const ScoredStep& step, const Slots& slots,
                          std::size_t begin, std::size_t end);

/// The lowest of `scores`, which must not be empty.
LowestScore lowest(std::span<const double> scores);

/// As update_scores() by the rule `attention`, without setting scores. gaps[i] is 0, or
/// kEvictedScore for a gap.
LowestScore least_attention(std::span<const float> weight, float scale, std::span<const float> gaps,
                            std::size_t begin, std::size_t end);

/// rows[s, i] = by_token[tokens[i], s]: the weights of `tokens`, one row per step of a block.
void gather_rows(const AlignedRows& by_token, std::span<const std::int32_t> tokens,
                 AlignedRows& rows);

/// sum[s] += sign * (the sum of by_token[token, s] over `tokens`), in fp64; `sum` is [kBlockSteps].
void add_rows(const AlignedRows& by_token, std::span<const std::int32_t> tokens, double sign,
              double* sum);

}  // namespace kvsim
