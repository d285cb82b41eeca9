#pragma once

#include <cstddef>
#include <span>

namespace kvsim {

/// Group-wise min-max quantisation of stored vectors (FlexGen: Sheng et al., ICML 2023, section 5,
/// "Approximate methods"): each run of `group` neighbouring numbers of a vector, the last one
/// possibly shorter, is stored as integers of `bits` bits between its least and its largest number.
struct Quantization {
  int bits = 4;    ///< 1 .. 8
  int group = 64;  ///< numbers that share a least number and a step

  /// Replaces each number by what its stored form stands for. The least number and the step are
  /// kept at the recorded precision, `element_bytes` 2 or 4 per number; the error is at most half
  /// a step.
  void round(std::span<float> vector, int element_bytes) const;

  /// The stored size of a vector: integers in whole bytes per vector, and per group its least
  /// number and its step.
  std::size_t bytes(std::size_t dim, int element_bytes) const;
};

}  // namespace kvsim
