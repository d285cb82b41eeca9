#include "sim/kernels/candidate_kernels.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <vector>

namespace kvsim::candidate_kernels_test {

std::vector<float> draws(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(bits() % 100) / 8;
  return values;
}

TEST_CASE("kernels: the sums that do not exceed a limit are found in order") {
  const std::size_t count = GENERATE(0, 1, 31, 32, 33, 200);
  const std::vector<float> cost = draws(count, 1);
  const std::vector<float> price = draws(count, 2);
  for (const float limit : {-1.F, 3.F, 12.F, std::numeric_limits<float>::infinity()}) {
    std::vector<std::int32_t> expected;
    std::vector<float> expected_sums;
    for (std::size_t i = 0; i < count; ++i) {
      if (cost[i] + price[i] > limit) continue;
      expected.push_back(static_cast<std::int32_t>(i));
      expected_sums.push_back(cost[i] + price[i]);
    }
    std::vector<std::int32_t> places(count);
    std::vector<float> sums(count);
    const std::size_t found = find_at_most(cost, price.data(), limit, places.data(), sums.data());
    places.resize(found);
    sums.resize(found);
    CHECK(places == expected);
    CHECK(sums == expected_sums);
  }
}

TEST_CASE("kernels: prices of listed tokens are added") {
  const std::size_t count = GENERATE(1, 8, 77);
  const std::vector<float> cost = draws(count, 3);
  const std::vector<float> price = draws(50, 4);
  std::vector<std::int32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::int32_t>(7 * i % 50);
  std::vector<float> sums(count);
  add_prices(cost.data(), tokens.data(), count, price.data(), sums.data());
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(sums[i] == cost[i] + price[static_cast<std::size_t>(tokens[i])]);
  }
}

TEST_CASE("kernels: a limit of a rank is exceeded by all but so many values") {
  const std::size_t count = GENERATE(1, 40, 333);
  std::vector<float> values(count);
  std::mt19937_64 bits(5);
  for (float& value : values) value = static_cast<float>(bits()) * 0x1p-60F;
  const auto up_to = [&](float limit) {
    return static_cast<std::size_t>(
        std::count_if(values.begin(), values.end(), [&](float value) { return value <= limit; }));
  };
  for (std::size_t least = 1; least <= count; least += 9) {
    const std::size_t found = up_to(limit_of_rank(values, least, least + 3));
    CHECK(found >= least);
    CHECK(found <= least + 3);
  }
}

TEST_CASE("kernels: of equal values a limit of a rank takes all that it has to") {
  std::vector<float> values(100, 2.5F);
  values[7] = 1;
  CHECK(limit_of_rank(values, 1, 5) == 1);
  CHECK(limit_of_rank(values, 2, 5) == 2.5F);
  CHECK(limit_of_rank(std::vector<float>(9, 0), 3, 4) == 0);
}

TEST_CASE("kernels: the lowest sum is exact in double precision") {
  const std::size_t count = GENERATE(1, 7, 8, 100);
  const std::vector<float> cost = draws(count, 6);
  std::vector<double> price(count);
  double expected = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < count; ++i) {
    price[i] = 1e-12 * static_cast<double>((i * 37) % 101);
    expected = std::min(expected, double{cost[i]} + price[i]);
  }
  CHECK(lowest_sum(cost, price.data()) == expected);
  CHECK(lowest_sum({}, nullptr) == std::numeric_limits<double>::infinity());
}

}  // namespace kvsim::candidate_kernels_test
