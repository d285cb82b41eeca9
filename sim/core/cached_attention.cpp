#include "sim/core/cached_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvsim {
namespace {

// Below this the weights of what is kept, taken against the largest logit of the full attention,
// are taken again against their own: the smaller ones would underflow, and the way to the output's
// difference through what is missing would cancel.
constexpr double kLeastWeightSum = 1e-3;

// Differences of sums in double are exact to about this much, relative to the largest value.
constexpr double kRounding = 1e-12;

}  // namespace

void CachedAttention::attend(int head, int row, std::span<const std::int32_t> tokens) {
  begin(head, row, tokens);
  weight_sum_ = attended_;
  if (attended_ < kLeastWeightSum) rescue_underflow();
}

void CachedAttention::rescue_underflow() {
  const float* logit = full_->logit.row(row_).data();
  float largest = -std::numeric_limits<float>::infinity();
  for (const std::int32_t token : tokens_) {
    if (token >= first_visible_) largest = std::max(largest, logit[token]);
  }
  weight_sum_ = 0;
  for (std::size_t slot = 0; slot < tokens_.size(); ++slot) {
    const std::int32_t token = tokens_[slot];
    weight_[slot] = token >= first_visible_ ? std::exp(logit[token] - largest) : 0.0F;
    weight_sum_ += weight_[slot];
  }
}

Measurement CachedAttention::measure() {
  Measurement result = measure_recall();
  if (!is_missing_any()) return result;
  const double longest_value = replayed_.block().longest_value[row_];
  result.error = output_difference().norm() / output_norm();
  result.bound = 2 * longest_value * result.attention_loss / output_norm();
  result.bound_slack = kRounding * longest_value / output_norm();
  return result;
}

// o - o'. With N, W the sums of weighted values and of weights, over what is kept and what is
// missing, o' = N_kept / W_kept, and also o - o' = (N_missing - W_missing o) / W_kept: whichever
// set is smaller serves.
Eigen::VectorXd CachedAttention::output_difference() {
  const auto full_output = full_->output.row(row_).transpose();
  sum_.setZero(unit_.value.cols());
  const auto missing = static_cast<std::size_t>(step_ + 1) - tokens_.size();
  if (missing >= tokens_.size() || weight_sum_ != attended_) {
    for (std::size_t slot = 0; slot < tokens_.size(); ++slot) {
      if (tokens_[slot] >= first_visible_) add_value(weight_[slot], unit_.value, tokens_[slot]);
    }
    return full_output - sum_ / weight_sum_;
  }
  const float* full_weight = full_->weight.row(row_).data();
  double missing_sum = 0;
  int next = first_visible_;
  for (const std::int32_t token : tokens_) {
    for (; next < token; ++next) {
      missing_sum += full_weight[next];
      add_value(full_weight[next], unit_.value, next);
    }
    next = std::max(next, token + 1);
  }
  return (sum_ - missing_sum * full_output) / weight_sum_;
}

}  // namespace kvsim
