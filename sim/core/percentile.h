#pragma once

#include <cstddef>
#include <span>

namespace kvsim {

/// Ranks among non-negative numbers and zeros that are not stored. Bisects the bits of the numbers,
/// which are in their order, so that it only ever counts: some thirty passes of vector
/// instructions, where sorting or std::nth_element would wait for every comparison.
class Percentiles {
 public:
  Percentiles(std::span<const float> numbers, std::size_t num_zeros);

  /// The value below which a share `rank` in [0, 1] of all lies, linearly interpolated between
  /// neighbours. There must be some.
  double at(double rank) const;

  double largest() const { return largest_; }

 private:
  std::span<const float> numbers_;
  std::size_t num_zeros_;
  float largest_;
};

}  // namespace kvsim
