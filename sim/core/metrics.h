#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/core/result.h"

namespace kvsim {

/// An error is above its bound if it exceeds it by more than this part of it.
inline constexpr double kBoundTolerance = 1e-4;

/// What one query head measures at one step.
struct Measurement {
  double attention_loss = 0;
  int accesses = 0;        ///< pivotal tokens
  int misses = 0;          ///< pivotal tokens that are not resident
  bool has_error = true;   ///< whether error and bound are taken at this step
  double error = 0;        ///< |o - o'| / |o|
  double bound = 0;        ///< Lemma B.4, relative to |o|
  double bound_slack = 0;  ///< rounding that a comparison of error and bound has to allow
};

/// Collects the measurements of one replay, in fp64.
class Metrics {
 public:
  /// Makes room for so many errors.
  void reserve(std::size_t num_errors) { errors_.reserve(num_errors); }

  void add(const Measurement& measurement);

  /// Writes attention_recall .. bound_violations of `result`. Ends the collection.
  void summarize(Result& result);

 private:
  std::int64_t count_ = 0;
  double loss_ = 0;
  double bound_ = 0;
  std::int64_t accesses_ = 0;
  std::int64_t misses_ = 0;
  std::int64_t violations_ = 0;
  std::vector<double> errors_;
};

/// The value below which a share `rank` in [0, 1] of `sorted` lies, linearly interpolated between
/// neighbours. `sorted` is ascending and not empty.
double percentile(const std::vector<double>& sorted, double rank);

/// The same of numbers in any order, which it changes.
template <class Number>
double select_percentile(std::vector<Number>& numbers, double rank) {
  const double position = rank * static_cast<double>(numbers.size() - 1);
  const auto below = numbers.begin() + static_cast<std::ptrdiff_t>(position);
  std::nth_element(numbers.begin(), below, numbers.end());
  if (below + 1 == numbers.end()) return *below;
  const double above = *std::min_element(below + 1, numbers.end());
  return *below + (position - std::floor(position)) * (above - *below);
}

}  // namespace kvsim
