#include "sim/core/exact_prefixes.h"

#include <algorithm>
#include <cmath>

#include "sim/core/curve_kernels.h"
#include "sim/core/rescued_step.h"
#include "sim/core/value_kernels.h"

namespace kvsim {

std::span<const double> ExactPrefixes::all(const StackedStep& step, std::size_t count) {
  at_ = &step;
  const float own = step.head.weight(step.row, step.step);
  sum_weights(own, step.weight, count);
  missing_.resize(count);
  double missing = 0;
  for (std::size_t i = count; i > 0; --i) missing_[i - 1] = missing += segment_[i];
  // From whichever end there is less to add: a small sum has a small rounding error.
  std::size_t middle = 0;
  while (middle < count && kept_[middle] < missing_[middle]) ++middle;
  std::size_t low = 0;
  while (low < middle && kept_[low] < kLeastWeightSum) ++low;
  sum_downwards(count, middle);
  sum_upwards(own, step.weight, low, middle);
  while (low > 0) low = weigh_again(low);
  return std::span(difference_).first(count);
}

std::span<const double> ExactPrefixes::rescued(const StackedStep& step, std::size_t count) {
  at_ = &step;
  for (std::size_t low = count; low > 0;) low = weigh_again(low);
  return std::span(difference_).first(count);
}

/// Of `count` budgets and of what is beyond, if there is anything.
void ExactPrefixes::sum_weights(float own, std::span<const float> weight, std::size_t count) {
  segment_.assign(count + 1, 0);
  kept_.resize(count);
  double kept = own;
  for (std::size_t i = 0; i <= count; ++i) {
    const std::size_t begin = begin_of(i);
    const std::size_t end = i < count ? budgets_[i] : weight.size();
    const Eigen::Map<const Eigen::VectorXf> part(weight.data() + begin,
                                                 static_cast<Eigen::Index>(end - begin));
    segment_[i] = part.cast<double>().sum();
    if (i < count) kept_[i] = kept += segment_[i];
  }
}

// o' - o = N_kept / W_kept - o, with N and W the sums of weighted values and of weights.
void ExactPrefixes::sum_upwards(float own, std::span<const float> weight, std::size_t from,
                                std::size_t to) {
  if (from == to) return;
  sum_ = own * unit_.value.row(at_->step).cast<double>();
  for (std::size_t i = 0; i < to; ++i) {
    add_values_of(weight.subspan(begin_of(i), budgets_[i] - begin_of(i)), i);
    if (i >= from) note(i, kept_[i]);
  }
}

// o - o' = (N_missing - W_missing o) / W_kept.
void ExactPrefixes::sum_downwards(std::size_t from, std::size_t to) {
  sum_.setZero(unit_.value.cols());
  for (std::size_t i = from; i > to; --i) {
    const std::size_t end = i < from ? budgets_[i] : at_->weight.size();
    add_values_of(at_->weight.subspan(begin_of(i), end - begin_of(i)), i);
    note(i - 1, missing_[i - 1]);
  }
}

/// Measures the largest of the first `count` budgets, and as many before it as can share its
/// weights, against the largest logit that it holds. Returns how many remain.
std::size_t ExactPrefixes::weigh_again(std::size_t count) {
  const auto held = static_cast<std::size_t>(budgets_[count - 1]);
  const float* logit = at_->head.logit.row(at_->row).data();
  const int visible = first_visible(unit_, at_->step);
  float largest = logit[at_->step];
  for (const std::int32_t token : at_->order.first(held)) {
    if (token >= visible) largest = std::max(largest, logit[token]);
  }
  const auto weigh = [&](std::int32_t token) {
    return token >= visible ? std::exp(logit[token] - largest) : 0.0F;
  };
  reweighted_.resize(held);
  std::transform(at_->order.begin(), at_->order.begin() + static_cast<std::ptrdiff_t>(held),
                 reweighted_.begin(), weigh);
  const float own = weigh(at_->step);
  sum_weights(own, reweighted_, count);
  std::size_t low = 0;
  while (kept_[low] < kLeastWeightSum) ++low;  // the last budget has at least 1
  sum_upwards(own, reweighted_, low, count);
  return low;
}

/// Adds the values of the segment, which `weight` belongs to.
void ExactPrefixes::add_values_of(std::span<const float> weight, std::size_t segment) {
  add_values(unit_.value, at_->order.subspan(begin_of(segment), weight.size()), weight,
             sum_.data());
}

/// |sum of weighted values - weight o|, over the weight of what is kept
void ExactPrefixes::note(std::size_t budget, double weight) {
  const double square = squared_distance(sum_.data(), weight, at_->head.output.row(at_->row).data(),
                                         static_cast<std::size_t>(sum_.size()));
  difference_[budget] = std::sqrt(square) / kept_[budget];
}

}  // namespace kvsim
