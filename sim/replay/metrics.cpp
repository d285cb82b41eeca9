#include "sim/replay/metrics.h"

#include <algorithm>
#include <numeric>

#include "sim/kernels/percentile.h"

namespace kvsim {

void Metrics::add(const Measurement& measurement) {
  ++count_;
  loss_ += measurement.attention_loss;
  accesses_ += measurement.accesses;
  misses_ += measurement.misses;
  if (!measurement.has_error) return;
  bound_ += measurement.bound;
  squared_ += measurement.squared;
  predicted_kl_ += measurement.predicted_kl;
  errors_.push_back(measurement.error);
  if (measurement.violates_bound()) ++violations_;
}

void Metrics::summarize(int group_size, Result& result) {
  const auto num_errors = static_cast<double>(errors_.size());
  result.attention_loss = loss_ / static_cast<double>(count_);
  result.attention_recall = 1 - *result.attention_loss;
  result.token_accesses = accesses_;
  result.token_misses = misses_;
  result.miss_rate = accesses_ == 0 ? 0 : static_cast<double>(misses_) / accesses_;
  result.output_error_mean = std::accumulate(errors_.begin(), errors_.end(), 0.0) / num_errors;
  result.output_error_p50 = select_percentile(errors_, 0.50);
  result.output_error_p95 = select_percentile(errors_, 0.95);
  result.output_error_max = *std::max_element(errors_.begin(), errors_.end());
  result.output_error_sq = squared_ / num_errors;
  result.predicted_kl = predicted_kl_ * group_size / num_errors;
  result.bound_mean = bound_ / num_errors;
  result.bound_violations = violations_;
}

}  // namespace kvsim
