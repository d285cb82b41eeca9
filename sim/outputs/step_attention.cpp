#include "sim/outputs/step_attention.h"

#include <algorithm>

#include "sim/kernels/score_kernels.h"
#include "sim/kernels/value_kernels.h"
#include "sim/outputs/altered_attention.h"
#include "sim/outputs/cached_attention.h"

namespace kvsim {

void MeasuredAttention::begin(int head, int row, std::span<const std::int32_t> tokens) {
  const AttentionBlock& block = replayed_.block();
  full_ = &block.heads[head];
  head_ = head;
  row_ = row;
  step_ = block.first_step + row;
  first_visible_ = first_visible(unit_, step_);
  selected_ = unit_.selected ? unit_.selected->at(step_) : std::span<const std::int32_t>();
  tokens_ = tokens;
  weight_.resize(tokens.size());
  const float* full_weight = full_->weight.row(row).data();
  attended_weight_ = full_->sink_weight[row];
  for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
    weight_[slot] = full_weight[tokens[slot]];
    attended_weight_ += weight_[slot];
  }
}

// Tokens that the step does not see cannot be missing.
bool MeasuredAttention::is_missing_any() const {
  const auto visible_of = [&](std::span<const std::int32_t> tokens) {
    return tokens.end() - std::ranges::lower_bound(tokens, first_visible_);
  };
  if (selected_.empty()) return visible_of(tokens_) < step_ + 1 - first_visible_;
  return !std::includes(tokens_.begin(), tokens_.end(), selected_.end() - visible_of(selected_),
                        selected_.end());
}

Measurement MeasuredAttention::measure_recall() const {
  const float* full_weight = full_->weight.row(row_).data();
  const double full_sum = full_->weight_sum[row_];
  Measurement result;
  result.accesses = full_->num_pivotal[row_];
  if (!is_missing_any()) return result;
  int hits = 0;
  for (const std::int32_t token : tokens_) hits += is_pivotal(full_weight[token], full_sum, step_);
  result.misses = result.accesses - hits;
  result.attention_loss = std::clamp((full_sum - attended_weight_) / full_sum, 0.0, 1.0);
  return result;
}

Eigen::VectorXd MeasuredAttention::output() const {
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(unit_.value.cols());
  add_values(unit_.value, tokens_, weight_, sum.data());
  return sum / weight_sum_;
}

void StepAttention::add_to_mean(double num_heads, std::vector<float>& mean) const {
  if (weight_sum_ <= 0) return;  // the step selects nothing of what is held
  add_attention(weight_, attention_scale(weight_sum_, num_heads), mean.data());
}

void MeasuredAttention::add_value(double weight, const float* value) {
  sum_ += weight * Eigen::Map<const Eigen::VectorXf>(value, sum_.size()).cast<double>();
}

std::unique_ptr<MeasuredAttention> make_measured_attention(ReplayedUnit& unit, const Rules& rules,
                                                           int first_stored, std::uint64_t seed) {
  if (rules.is_exact()) return std::make_unique<CachedAttention>(unit);
  return std::make_unique<AlteredAttention>(unit, rules, first_stored, seed);
}

}  // namespace kvsim
