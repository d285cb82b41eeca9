#pragma once

#include <vector>

#include "sim/outputs/measurement.h"
#include "sim/results/result.h"

namespace kvsim {

/// Sums the measurements of one replay, in fp64.
class Metrics {
 public:
  /// Reserves memory for `num_errors` errors.
  void reserve(std::size_t num_errors) { errors_.reserve(num_errors); }

  void add(const Measurement& measurement);

  /// Writes attention_recall .. bound_violations of `result`; no add() after it. Of `group_size`
  /// query heads, whose predicted KL adds up.
  void summarize(int group_size, Result& result);

 private:
  std::int64_t count_ = 0;
  double loss_ = 0;
  double bound_ = 0;
  double squared_ = 0;
  double predicted_kl_ = 0;
  std::int64_t accesses_ = 0;
  std::int64_t misses_ = 0;
  std::int64_t violations_ = 0;
  std::vector<double> errors_;
};

}  // namespace kvsim
