#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/base/random_bits.h"

namespace kvsim {

/// Biased coins of an online sampler. A flip depends only on seed, purpose, token and slot, not on
/// earlier flips.
class Coins {
 public:
  Coins(std::uint64_t seed, std::string_view purpose) : seed_(random_bits(seed, purpose)) {}

  /// True with the given probability.
  bool flip(std::int32_t token, std::size_t slot, double probability) const {
    const std::uint64_t draw = random_bits(seed_, static_cast<std::uint64_t>(token));
    return static_cast<double>(random_bits(draw, slot) >> 11) * 0x1p-53 < probability;
  }

 private:
  std::uint64_t seed_;
};

}  // namespace kvsim
