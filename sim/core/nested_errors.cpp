#include "sim/core/nested_errors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/core/curve_kernels.h"
#include "sim/core/metrics.h"
#include "sim/core/rescued_step.h"

namespace kvsim {
namespace {

constexpr double kRounding = 1e-12;

}  // namespace

NestedErrors::NestedErrors(const Unit& unit, const MatrixDouble& values, std::vector<int> budgets)
    : unit_(unit), values_(values), budgets_(std::move(budgets)), records_(budgets_.size()) {}

void NestedErrors::add(const StackedAttention& attention) {
  const auto larger = std::lower_bound(budgets_.begin(), budgets_.end(), attention.step);
  const auto count = static_cast<std::size_t>(larger - budgets_.begin());  // that lack something
  if (count == 0) return;
  at_ = &attention;
  // As in set_error(): a head that outputs exactly nothing has no relative error.
  norm_ =
      std::max(attention.head.output.row(attention.row).norm(), std::numeric_limits<double>::min());
  const float own = attention.head.weight(attention.row, attention.step);
  sum_weights(own, attention.weight, count);
  missing_.resize(count);
  double missing = 0;
  for (std::size_t i = count; i > 0; --i) missing_[i - 1] = missing += segment_[i];
  // From whichever end there is less to add: a small sum has a small rounding error.
  std::size_t middle = 0;
  while (middle < count && kept_[middle] < missing_[middle]) ++middle;
  std::size_t low = 0;
  while (low < middle && kept_[low] < kLeastWeightSum) ++low;
  sum_downwards(count, middle);
  sum_upwards(own, attention.weight, low, middle);
  while (low > 0) low = weigh_again(low);
}

/// Of `count` budgets and of what is beyond, if there is anything.
void NestedErrors::sum_weights(float own, std::span<const float> weight, std::size_t count) {
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
void NestedErrors::sum_upwards(float own, std::span<const float> weight, std::size_t from,
                               std::size_t to) {
  if (from == to) return;
  sum_ = own * values_.row(at_->step);
  for (std::size_t i = 0; i < to; ++i) {
    add_values(weight.subspan(begin_of(i), budgets_[i] - begin_of(i)), i);
    if (i >= from) note(i, distance(kept_[i]));
  }
}

// o - o' = (N_missing - W_missing o) / W_kept.
void NestedErrors::sum_downwards(std::size_t from, std::size_t to) {
  sum_.setZero(values_.cols());
  for (std::size_t i = from; i > to; --i) {
    const std::size_t end = i < from ? budgets_[i] : at_->weight.size();
    add_values(at_->weight.subspan(begin_of(i), end - begin_of(i)), i);
    note(i - 1, distance(missing_[i - 1]));
  }
}

/// Measures the largest of the first `count` budgets, and as many before it as can share its
/// weights, against the largest logit that it holds. Returns how many remain.
std::size_t NestedErrors::weigh_again(std::size_t count) {
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
void NestedErrors::add_values(std::span<const float> weight, std::size_t segment) {
  const std::int32_t* order = at_->order.data() + begin_of(segment);
  present_.resize(weight.size());
  present_weight_.resize(weight.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < weight.size(); ++i) {
    present_[count] = order[i];
    present_weight_[count] = weight[i];
    count += weight[i] != 0 ? 1 : 0;
  }
  kvsim::add_values(values_.data(), static_cast<std::size_t>(values_.cols()), present_.data(),
                    present_weight_.data(), count, sum_.data());
}

/// |sum of weighted values - weight o|
double NestedErrors::distance(double weight) const {
  return std::sqrt(squared_distance(sum_.data(), weight, at_->head.output.row(at_->row).data(),
                                    static_cast<std::size_t>(sum_.size())));
}

/// `difference` is |o - o'| times the weight of what is kept.
void NestedErrors::note(std::size_t budget, double difference) {
  Record& record = records_[budget];
  const double error = difference / kept_[budget] / norm_;
  const double loss = std::clamp(missing_[budget] / at_->head.weight_sum[at_->row], 0.0, 1.0);
  const double unit = at_->longest_value / norm_;
  const double bound = 2 * loss * unit;
  record.errors.push_back(static_cast<float>(error));
  record.error += error;
  record.bound += bound;
  if (error > bound * (1 + 1e-4) + kRounding * unit) ++record.violations;
}

std::map<int, OutputErrors> NestedErrors::finish(std::size_t count) && {
  std::map<int, OutputErrors> all;
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    Record& record = records_[i];
    OutputErrors& errors = all[budgets_[i]];
    errors.mean = record.error / static_cast<double>(count);
    errors.bound_mean = record.bound / static_cast<double>(count);
    errors.bound_violations = record.violations;
    record.errors.resize(count, 0);
    errors.p50 = select_percentile(record.errors, 0.50);
    errors.p95 = select_percentile(record.errors, 0.95);
    errors.max = *std::max_element(record.errors.begin(), record.errors.end());
    record.errors = {};
  }
  return all;
}

}  // namespace kvsim
