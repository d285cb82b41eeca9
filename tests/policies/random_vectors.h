#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/random_bits.h"

namespace kvsim::policies_test {

/// Numbers from -2 to 2; equal arguments give equal vectors.
inline std::vector<float> random_vector(std::uint64_t seed, std::uint64_t t, std::size_t dim) {
  std::vector<float> found;
  for (std::uint64_t d = 0; d < dim; ++d) {
    found.push_back(static_cast<float>(random_bits(random_bits(seed, t), d) >> 40) * 0x1p-22F - 2);
  }
  return found;
}

}  // namespace kvsim::policies_test
