#include "sim/kernels/percentile.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

namespace kvsim::percentile_test {

/// All of one number, of few, or of many orders of magnitude.
std::vector<float> random_numbers(std::size_t count, int kind, std::mt19937& random) {
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    const float x = std::generate_canonical<float, 24>(random);
    number = kind == 0 ? x : kind == 1 ? std::floor(4 * x) / 4 : std::exp(-80 * x);
  }
  return numbers;
}

TEST_CASE("a percentile lies between its neighbours in proportion", "[kernels]") {
  CHECK(percentile({7}, 0.5) == 7);
  CHECK(percentile({7}, 0.95) == 7);
  CHECK(percentile({1, 2}, 0.5) == 1.5);
  CHECK(percentile({1, 2, 4}, 0.5) == 2);
  CHECK(percentile({1, 2, 4, 8}, 0.5) == 3);
  CHECK(percentile({1, 2, 4, 8}, 0.95) == Approx(4 + 0.85 * 4));  // position 0.95 * 3 = 2.85
  CHECK(percentile({1, 2, 4, 8}, 0) == 1);
  CHECK(percentile({1, 2, 4, 8}, 1) == 8);
}

TEST_CASE("percentiles of counted numbers are those of sorted ones", "[kernels]") {
  std::mt19937 random(1);
  for (const std::size_t count : {0, 1, 2, 3, 31, 32, 33, 500}) {
    for (const std::size_t zeros : {0, 1, 2, 31, 600}) {
      if (count + zeros == 0) continue;
      for (const int kind : {0, 1, 2}) {
        const auto numbers = random_numbers(count, kind, random);
        std::vector<double> sorted(numbers.begin(), numbers.end());
        sorted.resize(count + zeros, 0);
        std::sort(sorted.begin(), sorted.end());
        const Percentiles percentiles(numbers, zeros);
        CAPTURE(count, zeros, kind);
        for (const double rank : {0.0, 0.1, 0.5, 0.95, 1.0}) {
          CAPTURE(rank);
          CHECK(percentiles.at(rank) == Approx(percentile(sorted, rank)).epsilon(1e-12));
        }
        CHECK(percentiles.largest() == sorted.back());
      }
    }
  }
}

}  // namespace kvsim::percentile_test
