#pragma once

#include <span>

namespace kvsim {

/// How the recorded model rotates queries and keys by their position.
struct Rotation {
  std::span<const double> inverse_frequency;  ///< [rotary_dim / 2]
  bool interleaved = false;  ///< pairs dimensions 2i and 2i + 1, not i and i + rotary_dim / 2
  double attention_factor = 1;
};

}  // namespace kvsim
