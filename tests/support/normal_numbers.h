#pragma once

#include <random>
#include <vector>

namespace kvsim::test_support {

/// Normally distributed numbers around 0; equal arguments give equal numbers.
inline std::vector<float> normal_numbers(std::size_t count, float spread, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

}  // namespace kvsim::test_support
