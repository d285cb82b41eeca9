#pragma once

#include <span>
#include <vector>

#include "sim/outputs/measurement.h"
#include "sim/results/result.h"

namespace kvsim {

/// Sums the measurements of one replay, in fp64.
class Metrics {
 public:
  /// Reserves memory for `num_errors` errors.
  void reserve(std::size_t num_errors) { errors_.reserve(num_errors); }

  /// In this order, since fp64 sums depend on it: the same order gives the same bits, whether added
  /// one by one or many together.
  void add(std::span<const Measurement> measurements);

  /// Writes attention_recall .. bound_violations of `result`; no add() after it. Of `group_size`
  /// query heads, whose predicted KL adds up.
  void summarize(int group_size, Result& result);

 private:
  struct Sums {
    double loss = 0;
    double bound = 0;
    double squared = 0;
    double predicted_kl = 0;
    std::int64_t accesses = 0;
    std::int64_t misses = 0;
    std::int64_t violations = 0;
  };

  std::int64_t count_ = 0;
  Sums sums_;
  std::vector<double> errors_;
};

}  // namespace kvsim
