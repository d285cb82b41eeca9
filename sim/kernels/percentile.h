#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace kvsim {

/// The percentile of rank `rank` in [0, 1], linearly interpolated between neighbours. `sorted` is
/// ascending and not empty.
double percentile(const std::vector<double>& sorted, double rank);

/// The same for unsorted numbers, which it reorders. `numbers` is not empty.
template <class Number>
double select_percentile(std::vector<Number>& numbers, double rank) {
  const double position = rank * static_cast<double>(numbers.size() - 1);
  const auto below = numbers.begin() + static_cast<std::ptrdiff_t>(position);
  std::nth_element(numbers.begin(), below, numbers.end());
  if (below + 1 == numbers.end()) return *below;
  const double above = *std::min_element(below + 1, numbers.end());
  return *below + (position - std::floor(position)) * (above - *below);
}

/// Percentiles of non-negative numbers and of zeros that are not stored. Bisects over the bit
/// patterns of the numbers, which have the order of the numbers: about thirty vectorised counting
/// passes, faster than the unpredictable branches of sorting or std::nth_element. `numbers` has to
/// outlive the object.
class Percentiles {
 public:
  Percentiles(std::span<const float> numbers, std::size_t num_zeros);

  /// The percentile of rank `rank` in [0, 1], linearly interpolated between neighbours. There must
  /// be at least one number or zero.
  double at(double rank) const;

  double largest() const { return largest_; }

 private:
  std::span<const float> numbers_;
  std::size_t num_zeros_;
  float largest_;
};

}  // namespace kvsim
