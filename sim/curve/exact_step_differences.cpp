#include "sim/curve/exact_step_differences.h"

#include <algorithm>
#include <cmath>

#include "sim/attention/rescaled_step.h"
#include "sim/kernels/curve_kernels.h"
#include "sim/kernels/tolerances.h"
#include "sim/kernels/value_kernels.h"

namespace kvsim {

std::span<const double> ExactStepDifferences::compute(const StepInStackOrder& step,
                                                      std::size_t count) {
  const float own = step.head.weight(step.row, step.step);
  set_ends(step.tokens, count);
  sum_weights(own + step.head.sink_weight[step.row], step.tokens.weight, count);
  missing_weight_.resize(count);
  double missing = 0;
  for (std::size_t i = count; i > 0; --i) missing_weight_[i - 1] = missing += segment_weight_[i];
  // Sum the side with less weight: a small sum has a small rounding error.
  std::size_t half = 0;
  while (half < count && kept_weight_[half] < missing_weight_[half]) ++half;
  std::size_t low = 0;
  while (low < half && kept_weight_[low] < kMinWeightSum) ++low;
  compute_from_missing(step, count, half);
  compute_from_kept(step, own, step.tokens.weight, low, half);
  while (low > 0) low = rescale_largest(step, low);
  return std::span(difference_).first(count);
}

std::span<const double> ExactStepDifferences::compute_rescaled(const StepInStackOrder& step,
                                                               std::size_t count) {
  set_ends(step.tokens, count);
  for (std::size_t low = count; low > 0;) low = rescale_largest(step, low);
  return std::span(difference_).first(count);
}

void ExactStepDifferences::set_ends(const StackOrder& step, std::size_t count) {
  end_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    end_[i] = static_cast<std::size_t>(budgets_[i] - step.first_place);
  }
}

/// Weights of the segments of `count` budgets and of the one after them, if there is one.
void ExactStepDifferences::sum_weights(double always_kept, std::span<const float> weight,
                                       std::size_t count) {
  segment_weight_.assign(count + 1, 0);
  kept_weight_.resize(count);
  double kept = always_kept;
  for (std::size_t i = 0; i <= count; ++i) {
    const std::size_t begin = begin_of(i);
    const std::size_t end = i < count ? end_[i] : weight.size();
    const Eigen::Map<const Eigen::VectorXf> part(weight.data() + begin,
                                                 static_cast<Eigen::Index>(end - begin));
    segment_weight_[i] = part.cast<double>().sum();
    if (i < count) kept_weight_[i] = kept += segment_weight_[i];
  }
}

// o' - o = N_kept / W_kept - o, with N and W the sums of weighted values and of weights.
void ExactStepDifferences::compute_from_kept(const StepInStackOrder& step, float own,
                                             std::span<const float> weight, std::size_t from,
                                             std::size_t to) {
  if (from == to) return;
  value_sum_ = own * unit_.value.row(step.step).cast<double>();
  for (std::size_t i = 0; i < to; ++i) {
    add_values_of(step, weight.subspan(begin_of(i), end_[i] - begin_of(i)), i);
    if (i >= from) store_difference(step, i, kept_weight_[i]);
  }
}

// o - o' = (N_missing - W_missing o) / W_kept.
void ExactStepDifferences::compute_from_missing(const StepInStackOrder& step, std::size_t from,
                                                std::size_t to) {
  value_sum_.setZero(unit_.value.cols());
  for (std::size_t i = from; i > to; --i) {
    const std::size_t end = i < from ? end_[i] : step.tokens.weight.size();
    add_values_of(step, step.tokens.weight.subspan(begin_of(i), end - begin_of(i)), i);
    store_difference(step, i - 1, missing_weight_[i - 1]);
  }
}

/// Computes the largest of the first `count` budgets with weights relative to its largest kept
/// logit, and each smaller budget that keeps at least kMinWeightSum of these weights. Returns the
/// number of budgets that remain.
std::size_t ExactStepDifferences::rescale_largest(const StepInStackOrder& step, std::size_t count) {
  const auto held = end_[count - 1];
  const float* logit = step.head.logit.row(step.row).data();
  const int visible = first_visible(unit_, step.step);
  float largest = std::max(logit[step.step], unit_.sink(step.index));
  for (const std::int32_t token : step.tokens.order.first(held)) {
    if (token >= visible) largest = std::max(largest, logit[token]);
  }
  if (std::isinf(largest)) {  // the step selects none of what is held: the output is 0
    std::fill_n(difference_.begin(), count, step.head.output_norm[step.row]);
    return 0;
  }
  const auto weigh = [&](std::int32_t token) {
    return token >= visible ? std::exp(logit[token] - largest) : 0.0F;
  };
  rescaled_weight_.resize(held);
  std::transform(step.tokens.order.begin(),
                 step.tokens.order.begin() + static_cast<std::ptrdiff_t>(held),
                 rescaled_weight_.begin(), weigh);
  const float own = weigh(step.step);
  sum_weights(own + sink_weight(unit_, step.index, largest), rescaled_weight_, count);
  std::size_t low = 0;
  while (kept_weight_[low] < kMinWeightSum) ++low;  // the last budget has at least 1
  compute_from_kept(step, own, rescaled_weight_, low, count);
  return low;
}

/// Adds the values of a segment, weighted by `weight`.
void ExactStepDifferences::add_values_of(const StepInStackOrder& step,
                                         std::span<const float> weight, std::size_t segment) {
  add_values(unit_.value, step.tokens.order.subspan(begin_of(segment), weight.size()), weight,
             value_sum_.data());
}

/// |value_sum_ - weight o| / W_kept.
void ExactStepDifferences::store_difference(const StepInStackOrder& step, std::size_t budget,
                                            double weight) {
  const double square =
      squared_distance(value_sum_.data(), weight, step.head.output.row(step.row).data(),
                       static_cast<std::size_t>(value_sum_.size()));
  difference_[budget] = std::sqrt(square) / kept_weight_[budget];
}

}  // namespace kvsim
