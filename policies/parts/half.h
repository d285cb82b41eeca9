#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace kvsim {

inline constexpr float kLargestHalf = 65504;

/// The distance between neighbouring halves (IEEE 754 binary16) at this magnitude.
inline float half_spacing(float magnitude) {
  constexpr std::uint32_t kExponent = 0x7f800000;  // of a float
  constexpr std::uint32_t kTenBits = 10U << 23;    // halves have ten bits of fraction
  constexpr auto kLeast = std::bit_cast<std::uint32_t>(0x1p-14F);  // the least normal half
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(magnitude) & kExponent;
  return std::bit_cast<float>(std::max(exponent, kLeast) - kTenBits);
}

/// The nearest half, ties to even. Values beyond the largest half of either sign become that half.
inline float round_to_half(float x) {
  const float magnitude = std::min(std::fabs(x), kLargestHalf);
  // Floats near `coarse` are as far apart as halves near `magnitude`, so the addition rounds.
  const float coarse = half_spacing(magnitude) * 0x1p23F;
  return std::copysign((magnitude + coarse) - coarse, x);
}

}  // namespace kvsim
