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

void CachedAttention::attend(const AttentionBlock& block, int head, int row,
                             std::span<const std::int32_t> tokens) {
  full_ = &block.heads[head];
  row_ = row;
  step_ = block.first_step + row;
  longest_value_ = block.longest_value[row];
  tokens_ = tokens;
  weight_.resize(tokens.size());
  const float* full_weight = full_->weight.row(row).data();
  attended_ = 0;
  for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
    weight_[slot] = full_weight[tokens[slot]];
    attended_ += weight_[slot];
  }
  weight_sum_ = attended_;
  if (attended_ < kLeastWeightSum) rescue_underflow();
}

void CachedAttention::rescue_underflow() {
  const float* logit = full_->logit.row(row_).data();
  const int begin = first_visible(unit_, step_);
  float largest = -std::numeric_limits<float>::infinity();
  for (const std::int32_t token : tokens_) {
    if (token >= begin) largest = std::max(largest, logit[token]);
  }
  weight_sum_ = 0;
  for (std::size_t slot = 0; slot < tokens_.size(); ++slot) {
    const std::int32_t token = tokens_[slot];
    weight_[slot] = token >= begin ? std::exp(logit[token] - largest) : 0.0F;
    weight_sum_ += weight_[slot];
  }
}

bool CachedAttention::anything_missing() const {
  const int begin = first_visible(unit_, step_);
  const auto visible = tokens_.end() - std::lower_bound(tokens_.begin(), tokens_.end(), begin);
  return visible < step_ + 1 - begin;
}

Measurement CachedAttention::measure() {
  const float* full_weight = full_->weight.row(row_).data();
  const double full_sum = full_->weight_sum[row_];
  Measurement result;
  result.accesses = full_->num_pivotal[row_];
  if (!anything_missing()) return result;

  int hits = 0;
  for (const std::int32_t token : tokens_) hits += is_pivotal(full_weight[token], full_sum, step_);
  result.misses = result.accesses - hits;
  result.attention_loss = std::clamp((full_sum - attended_) / full_sum, 0.0, 1.0);

  // A head that outputs exactly nothing has no relative error; the least double keeps it finite.
  const double output_norm =
      std::max(full_->output.row(row_).norm(), std::numeric_limits<double>::min());
  result.error = output_difference().norm() / output_norm;
  result.bound = 2 * longest_value_ * result.attention_loss / output_norm;
  result.bound_slack = kRounding * longest_value_ / output_norm;
  return result;
}

// o - o'. With N, W the sums of weighted values and of weights, over what is kept and what is
// missing, o' = N_kept / W_kept, and also o - o' = (N_missing - W_missing o) / W_kept: whichever
// set is smaller serves.
Eigen::VectorXd CachedAttention::output_difference() {
  const auto full_output = full_->output.row(row_).transpose();
  const int begin = first_visible(unit_, step_);
  sum_.setZero(unit_.value.cols());
  const auto missing = static_cast<std::size_t>(step_ + 1) - tokens_.size();
  if (missing >= tokens_.size() || weight_sum_ != attended_) {
    for (std::size_t slot = 0; slot < tokens_.size(); ++slot) {
      if (tokens_[slot] >= begin) add_value(weight_[slot], tokens_[slot]);
    }
    return full_output - sum_ / weight_sum_;
  }
  const float* full_weight = full_->weight.row(row_).data();
  double missing_sum = 0;
  int next = begin;
  for (const std::int32_t token : tokens_) {
    for (; next < token; ++next) {
      missing_sum += full_weight[next];
      add_value(full_weight[next], next);
    }
    next = std::max(next, token + 1);
  }
  return (sum_ - missing_sum * full_output) / weight_sum_;
}

void CachedAttention::add_value(double weight, int token) {
  sum_ += weight * unit_.value.row(token).transpose().cast<double>();
}

}  // namespace kvsim
