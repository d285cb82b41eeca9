#include "policies/mean_direction.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "tests/policies/random_vectors.h"

namespace kvsim::mean_direction_test {

constexpr std::size_t kSums = 8;

/// The product in the order of additions that scores have had from the first.
double product(const float* vector, const std::vector<double>& mean) {
  std::array<double, kSums> sums = {};
  const std::size_t whole = mean.size() / kSums * kSums;
  for (std::size_t d = 0; d < whole; ++d) sums[d % kSums] += vector[d] * mean[d];
  for (std::size_t d = whole; d < mean.size(); ++d) sums[0] += vector[d] * mean[d];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

TEST_CASE("scores by the mean direction are equal to the last bit at every width and number",
          "[policies]") {
  for (const std::size_t dim : {1, 7, 8, 20, 64, 80, 100, 129}) {
    MeanDirection directions;
    std::vector<float> rows;
    std::vector<double> length;
    for (std::uint64_t t = 0; t < 60; ++t) {
      const std::vector<float> vector = policies_test::random_vector(dim, t, dim);
      directions.add(static_cast<int>(t), vector);
      rows.insert(rows.end(), vector.begin(), vector.end());
      length.push_back(
          std::sqrt(std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0)));
    }
    for (const std::size_t count : {1, 2, 7, 8, 19}) {
      std::vector<std::int32_t> tokens(count);
      for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::int32_t>(3 * i);
      std::vector<double> mean(dim, 0);
      for (const std::int32_t token : tokens) {
        const double share = 1 / length[token];
        for (std::size_t d = 0; d < dim; ++d) mean[d] += share * rows[token * dim + d];
      }
      std::vector<double> scores(count);
      directions.score(tokens, {rows.data(), dim, tokens}, scores);
      for (std::size_t i = 0; i < count; ++i) {
        const std::int32_t token = tokens[i];
        REQUIRE(scores[i] == -product(rows.data() + token * dim, mean) / length[token]);
      }
    }
  }
}

}  // namespace kvsim::mean_direction_test
