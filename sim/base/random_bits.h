#pragma once

#include <cstdint>
#include <string_view>

namespace kvsim {

/// 64 well-mixed bits of one number: the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast
/// Splittable Pseudorandom Number Generators", OOPSLA 2014). A function of its argument alone, so a
/// draw does not depend on the draws made before it.
constexpr std::uint64_t random_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Draws for a pair, such as (seed, step).
constexpr std::uint64_t random_bits(std::uint64_t x, std::uint64_t y) {
  return random_bits(random_bits(x) ^ y);
}

/// Draws for a seed and a name.
constexpr std::uint64_t random_bits(std::uint64_t x, std::string_view name) {
  for (const char c : name) x = random_bits(x, static_cast<unsigned char>(c));
  return random_bits(x, name.size());
}

}  // namespace kvsim
