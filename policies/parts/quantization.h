#pragma once

#include <cstddef>
#include <span>

namespace kvsim {

/// Group-wise min-max quantisation of stored vectors (FlexGen: Sheng et al., ICML 2023, section 5,
/// "Approximate methods"): each run of `group` neighbouring numbers of a vector (the last run may
/// be shorter) is stored as integers of `bits` bits that span its least to its largest number.
struct Quantization {
  int bits = 4;    ///< 1 .. 8
  int group = 64;  ///< numbers that share a least number and a step

  /// Quantises each number and restores it. The least number and the step are stored at the
  /// recorded precision, `element_bytes` 2 or 4 per number; the error is at most half a step.
  void round(std::span<float> vector, int element_bytes) const;

  /// The stored size in bytes of a vector of `dim` numbers: its integers, rounded up to whole
  /// bytes, and per group the least number and the step.
  std::size_t bytes(std::size_t dim, int element_bytes) const;
};

}  // namespace kvsim
