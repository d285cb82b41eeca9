#include "policies/parts/row_products.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "policies/parts/lane_sums.h"
#include "policies/parts/output_changes.h"

namespace kvsim::row_products_test {

using Numbers = std::vector<double>;

std::vector<std::vector<float>> random_rows(std::size_t count, std::size_t dim,
                                            std::mt19937_64& bits) {
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> rows(count, std::vector<float>(dim));
  for (std::vector<float>& row : rows) {
    for (float& x : row) x = normal(bits);
  }
  return rows;
}

Numbers random_numbers(std::size_t count, std::mt19937_64& bits) {
  std::normal_distribution<double> normal;
  Numbers numbers(count);
  for (double& x : numbers) x = normal(bits);
  return numbers;
}

TEST_CASE("to the last bit: products of rows and their sums are those of plain loops", "[parts]") {
  std::mt19937_64 bits(1);
  for (const std::size_t dim : {1U, 7U, 8U, 20U, 64U, 131U}) {
    for (const std::size_t count : {0U, 1U, 3U, 4U, 21U}) {
      const auto rows = random_rows(count, dim, bits);
      std::vector<const float*> pointers;
      for (const std::vector<float>& row : rows) pointers.push_back(row.data());
      const Numbers vector = random_numbers(dim, bits);
      Numbers products(count);
      row_products(pointers, vector, products.data());
      const Numbers weights = random_numbers(count, bits);
      Numbers sums(dim, 3);
      weighted_row_sums(pointers, weights.data(), sums);
      std::vector<Numbers> wide;
      std::vector<const double*> of_wide;
      for (const std::vector<float>& row : rows) wide.emplace_back(row.begin(), row.end());
      for (Numbers& row : wide) {
        for (double& x : row) x /= 3;
        of_wide.push_back(row.data());
      }
      Numbers in_four(count);
      row_products_in_four(pointers, vector, in_four.data());
      Numbers wide_in_four(count);
      row_products_in_four(of_wide, vector, wide_in_four.data());
      CAPTURE(dim, count);
      for (std::size_t i = 0; i < count; ++i) {
        CHECK(in_four[i] ==
              sum_in_lanes<4>(dim, [&](std::size_t d) { return double{rows[i][d]} * vector[d]; }));
        CHECK(wide_in_four[i] ==
              sum_in_lanes<4>(dim, [&](std::size_t d) { return wide[i][d] * vector[d]; }));
        CHECK(products[i] ==
              sum_in_lanes(dim, [&](std::size_t d) { return double{rows[i][d]} * vector[d]; }));
      }
      for (std::size_t d = 0; d < dim; ++d) {
        double sum = 0;
        for (std::size_t i = 0; i < count; ++i) sum += weights[i] * double{rows[i][d]};
        REQUIRE(sums[d] == sum);
      }
    }
  }
}

TEST_CASE("to the last bit: changes of outputs are those of their formula", "[parts]") {
  std::mt19937_64 bits(2);
  for (const std::size_t count : {0U, 1U, 5U, 8U, 37U}) {
    Numbers weights = random_numbers(count, bits);
    for (double& weight : weights) weight = std::exp(weight);
    const Numbers squares = random_numbers(count, bits);  // some distances are below 0, by rounding
    Numbers along_output = random_numbers(count, bits);
    Numbers along_error = random_numbers(count, bits);
    const QueryOutput query{.weight_sum = 7, .output_square = 0.5, .error_along_output = 0.25};
    Numbers scores(count, 1);
    add_output_changes(query, weights, squares.data(), along_output.data(), along_error.data(),
                       scores.data());
    CAPTURE(count);
    for (std::size_t i = 0; i < count; ++i) {
      const double ratio = weights[i] / std::max(7 - weights[i], kLeastWeight);
      const double square = std::max(squares[i] - 2 * along_output[i] + 0.5, 0.0);
      CHECK(scores[i] == 1 + ratio * (ratio * square - 2 * (along_error[i] - 0.25)));
    }
    const Numbers products = random_numbers(count, bits);
    const Numbers output_before = along_output;
    const Numbers error_before = along_error;
    follow_removal(0.3, products.data(), along_output, along_error.data());
    for (std::size_t i = 0; i < count; ++i) {
      const double change = 0.3 * (output_before[i] - products[i]);
      CHECK(along_output[i] == output_before[i] + change);
      CHECK(along_error[i] == error_before[i] + change);
    }
    const Numbers error_after = along_error;
    follow_removal(0.3, products.data(), along_output, nullptr);
    CHECK(along_error == error_after);
  }
}

}  // namespace kvsim::row_products_test
