#include "sim/outputs/step_attention.h"

#include <algorithm>

#include "sim/kernels/score_kernels.h"
#include "sim/kernels/value_kernels.h"
#include "sim/outputs/altered_attention.h"
#include "sim/outputs/cached_attention.h"

namespace kvsim {

void MeasuredAttention::gather(int row, std::span<const std::int32_t> tokens) {
  constexpr int kMost = 4;  // more need more registers than there are
  const auto num_heads = static_cast<int>(gathered_.size());
  int head = 0;
  for (; head + kMost <= num_heads; head += kMost) gather_heads<kMost>(head, row, tokens);
  if (num_heads - head == 3) gather_heads<3>(head, row, tokens);
  if (num_heads - head == 2) gather_heads<2>(head, row, tokens);
  if (num_heads - head == 1) gather_heads<1>(head, row, tokens);
  gathered_step_ = replayed_.block().first_step + row;
  gathered_from_ = tokens;
}

// Each sum is in the order of the tokens, whatever the number of heads.
template <int kHeads>
void MeasuredAttention::gather_heads(int first_head, int row,
                                     std::span<const std::int32_t> tokens) {
  const AttentionBlock& block = replayed_.block();
  const int step = block.first_step + row;
  const float* from[kHeads];
  float* to[kHeads];
  double full_sum[kHeads];
  double sum[kHeads];
  int num_pivotal[kHeads] = {};
  for (int i = 0; i < kHeads; ++i) {
    const HeadAttention& full = block.heads[first_head + i];
    gathered_[first_head + i].weight.resize(tokens.size());
    from[i] = full.weight.row(row).data();
    to[i] = gathered_[first_head + i].weight.data();
    full_sum[i] = full.weight_sum[row];
    sum[i] = full.sink_weight[row];
  }
  for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
    const std::int32_t token = tokens[slot];
    for (int i = 0; i < kHeads; ++i) {
      const float weight = from[i][token];
      to[i][slot] = weight;
      sum[i] += weight;
      num_pivotal[i] += static_cast<int>(is_pivotal(weight, full_sum[i], step));
    }
  }
  for (int i = 0; i < kHeads; ++i) {
    gathered_[first_head + i].sum = sum[i];
    gathered_[first_head + i].num_pivotal = num_pivotal[i];
  }
}

void MeasuredAttention::begin(int head, int row, std::span<const std::int32_t> tokens) {
  const AttentionBlock& block = replayed_.block();
  full_ = &block.heads[head];
  head_ = head;
  row_ = row;
  step_ = block.first_step + row;
  first_visible_ = first_visible(unit_, step_);
  selected_ = unit_.selected ? unit_.selected->at(step_) : std::span<const std::int32_t>();
  tokens_ = tokens;
  const bool is_gathered = step_ == gathered_step_ && tokens.data() == gathered_from_.data() &&
                           tokens.size() == gathered_from_.size();
  if (!is_gathered) gather_heads<1>(head, row, tokens);
  weight_ = gathered_[head].weight;
  attended_weight_ = gathered_[head].sum;
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
  const double full_sum = full_->weight_sum[row_];
  Measurement result;
  result.accesses = full_->num_pivotal[row_];
  if (!is_missing_any()) return result;
  result.misses = result.accesses - gathered_[head_].num_pivotal;
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
