#pragma once

#include <vector>

#include "sim/outputs/measurement.h"
#include "sim/results/sampled_interval.h"

namespace kvsim {

/// The measurements of one replay by step, for intervals of their means: by the percentile
/// bootstrap over steps (PairedBootstrap), each step with all its query heads.
class SampledMetrics {
 public:
  explicit SampledMetrics(int group_size) : group_size_(group_size) {}

  /// Measurements come step by step, those of all query heads of a step together.
  void add(const Measurement& measurement);

  /// The intervals of the columns that `result` has and that are means, or a ratio of sums, over
  /// steps: no percentiles.
  std::vector<SampledInterval> intervals(const Result& result) const;

 private:
  struct OfSteps {
    std::vector<double> loss, accesses, misses, error, squared, predicted_kl, bound;
  };

  int group_size_;
  std::size_t count_ = 0;
  OfSteps sums_;  // over the query heads of each step
};

}  // namespace kvsim
