#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/attention.h"
#include "sim/core/metrics.h"

namespace kvsim {

/// Attention of one query head at one step over the tokens that a cache holds, derived from the
/// weights of the full attention. Buffers are reused from step to step.
class CachedAttention {
 public:
  explicit CachedAttention(const Unit& unit) : unit_(unit) {}

  /// Row `row` of `block` for query head `head`, over `tokens` (ascending, the last one being the
  /// row's own step).
  void attend(const AttentionBlock& block, int head, int row, std::span<const std::int32_t> tokens);

  /// p[t,j], parallel to the tokens.
  double attention(std::size_t slot) const { return weight_[slot] / weight_sum_; }

  /// What the cache lost at this step. Call after attend().
  Measurement measure();

 private:
  void rescue_underflow();
  bool anything_missing() const;
  Eigen::VectorXd output_difference();
  void add_value(double weight, int token);

  const Unit& unit_;
  const HeadAttention* full_ = nullptr;
  int row_ = 0;
  int step_ = 0;
  double longest_value_ = 0;
  std::span<const std::int32_t> tokens_;
  std::vector<float> weight_;  // exp(logit - offset) of each token
  double weight_sum_ = 0;
  double attended_ = 0;  // the same sum with the offset of the full attention
  Eigen::VectorXd sum_;
};

}  // namespace kvsim
