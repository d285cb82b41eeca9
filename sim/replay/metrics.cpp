#include "sim/replay/metrics.h"

#include <algorithm>
#include <numeric>

#include "sim/kernels/percentile.h"

namespace kvsim {

// The sums of a whole block are kept in registers.
void Metrics::add(std::span<const Measurement> measurements) {
  Sums sums = sums_;
  for (const Measurement& measurement : measurements) {
    sums.loss += measurement.attention_loss;
    sums.accesses += measurement.accesses;
    sums.misses += measurement.misses;
    if (!measurement.has_error) continue;
    sums.bound += measurement.bound;
    sums.squared += measurement.squared;
    sums.predicted_kl += measurement.predicted_kl;
    sums.violations += measurement.violates_bound() ? 1 : 0;
    errors_.push_back(measurement.error);
  }
  sums_ = sums;
  count_ += std::ssize(measurements);
}

void Metrics::summarize(int group_size, Result& result) {
  const auto num_errors = static_cast<double>(errors_.size());
  result.attention_loss = sums_.loss / static_cast<double>(count_);
  result.attention_recall = 1 - *result.attention_loss;
  result.token_accesses = sums_.accesses;
  result.token_misses = sums_.misses;
  result.miss_rate = sums_.accesses == 0 ? 0 : static_cast<double>(sums_.misses) / sums_.accesses;
  result.output_error_mean = std::accumulate(errors_.begin(), errors_.end(), 0.0) / num_errors;
  result.output_error_p50 = select_percentile(errors_, 0.50);
  result.output_error_p95 = select_percentile(errors_, 0.95);
  result.output_error_max = *std::max_element(errors_.begin(), errors_.end());
  result.output_error_sq = sums_.squared / num_errors;
  result.predicted_kl = sums_.predicted_kl * group_size / num_errors;
  result.bound_mean = sums_.bound / num_errors;
  result.bound_violations = sums_.violations;
}

}  // namespace kvsim
