#include "analysis/fits/radix_sort.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

namespace kvsim::radix_sort_test {

TEST_CASE("numbers are sorted as by comparison, whatever their signs and sizes", "[fits]") {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (const std::size_t count : {0U, 1U, 100U, 256U, 257U, 3000U}) {
    std::vector<double> numbers(count);
    for (double& x : numbers) x = normal(random) * std::exp(20 * normal(random));
    for (std::size_t i = 0; i + 3 < count; i += 50) {
      numbers[i] = numbers[i + 1];
      numbers[i + 2] = std::numeric_limits<double>::denorm_min();
      numbers[i + 3] = -std::numeric_limits<double>::infinity();
    }
    std::vector<double> expected(numbers);
    std::ranges::sort(expected);
    sort_ascending(numbers);
    CAPTURE(count);
    CHECK(numbers == expected);
  }
}

TEST_CASE("numbers that agree from a bit on stay in their order", "[fits]") {
  std::mt19937_64 random(2);
  for (const std::size_t count : {200U, 2000U}) {
    std::vector<std::uint64_t> numbers(count);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = random() % 64 << 40 | (count - i);
    std::vector<std::uint64_t> expected(numbers);
    std::ranges::stable_sort(expected, {}, [](std::uint64_t x) { return x >> 32; });
    radix_sort(numbers, 32);
    CHECK(numbers == expected);
  }
}

}  // namespace kvsim::radix_sort_test
