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

std::vector<Numbers> products_with(const std::vector<const float*>& rows,
                                   const std::vector<Numbers>& vectors) {
  std::vector<Numbers> products(vectors.size(), Numbers(rows.size()));
  std::vector<const double*> from;
  std::vector<double*> to;
  for (const Numbers& vector : vectors) from.push_back(vector.data());
  for (Numbers& numbers : products) to.push_back(numbers.data());
  row_products(rows, from, vectors.front().size(), to);
  return products;
}

std::vector<Numbers> sums_with(const std::vector<const float*>& rows,
                               const std::vector<Numbers>& weights, std::size_t dim) {
  std::vector<Numbers> sums(weights.size(), Numbers(dim));
  std::vector<const double*> from;
  std::vector<double*> to;
  for (const Numbers& list : weights) from.push_back(list.data());
  for (Numbers& numbers : sums) to.push_back(numbers.data());
  weighted_row_sums(rows, from, to, dim);
  return sums;
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
      std::vector<Numbers> vectors;
      std::vector<Numbers> lists;
      const std::size_t together = 1 + bits() % 7;
      for (std::size_t i = 0; i < together; ++i) {
        vectors.push_back(random_numbers(dim, bits));
        lists.push_back(random_numbers(count, bits));
      }
      const std::vector<Numbers> products_of_each = products_with(pointers, vectors);
      const std::vector<Numbers> sums_of_each = sums_with(pointers, lists, dim);
      for (std::size_t v = 0; v < vectors.size(); ++v) {
        Numbers alone(count);
        row_products(pointers, vectors[v], alone.data());
        CHECK(products_of_each[v] == alone);
        Numbers sum_alone(dim);
        weighted_row_sums(pointers, lists[v].data(), sum_alone);
        CHECK(sums_of_each[v] == sum_alone);
      }
      const Numbers factors = random_numbers(count, bits);
      Numbers squares(count);
      squares_of_differences(pointers, weights.data(), vector, factors.data(), squares.data());
      for (std::size_t i = 0; i < count; ++i) {
        CHECK(squares[i] == sum_in_lanes(dim, [&](std::size_t d) {
                const double change = weights[i] * double{rows[i][d]} - factors[i] * vector[d];
                return change * change;
              }));
      }
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
    const OutputProducts of_output{.output_square = 0.5, .error_along_output = 0.25};
    Numbers scores(count, 1);
    add_output_changes(7, of_output, weights, squares.data(), along_output.data(),
                       along_error.data(), scores.data());
    CAPTURE(count);
    for (std::size_t i = 0; i < count; ++i) {
      const double ratio = weights[i] / std::max(7 - weights[i], kLeastWeight);
      const double square = std::max(squares[i] - 2 * along_output[i] + 0.5, 0.0);
      CHECK(scores[i] == 1 + ratio * (ratio * square - 2 * (along_error[i] - 0.25)));
    }
    const Numbers products = random_numbers(count, bits);
    const Numbers output_before = along_output;
    const Numbers error_before = along_error;
    Numbers output_after = output_before;
    Numbers error_after = error_before;
    Numbers at_once(count, 1);
    add_output_changes(7, of_output, weights, squares.data(), output_after.data(),
                       error_after.data(), at_once.data(), {0.3, products.data()});
    follow_removal({0.3, products.data()}, along_output, along_error.data());
    Numbers in_turn(count, 1);
    add_output_changes(7, of_output, weights, squares.data(), along_output.data(),
                       along_error.data(), in_turn.data());
    CHECK(at_once == in_turn);
    CHECK(output_after == along_output);
    CHECK(error_after == along_error);
    for (std::size_t i = 0; i < count; ++i) {
      const double change = 0.3 * (output_before[i] - products[i]);
      CHECK(along_output[i] == output_before[i] + change);
      CHECK(along_error[i] == error_before[i] + change);
    }
    const Numbers value = random_numbers(count, bits);
    Numbers output = output_before;
    Numbers error = error_before;
    const OutputProducts moved = move_output(0.3, value, output.data(), error.data());
    for (std::size_t d = 0; d < count; ++d) {
      const double change = 0.3 * (output_before[d] - value[d]);
      CHECK(output[d] == output_before[d] + change);
      CHECK(error[d] == error_before[d] + change);
    }
    const OutputProducts expected = output_products(output, error.data());
    CHECK(moved.output_square == expected.output_square);
    CHECK(moved.error_along_output == expected.error_along_output);
    follow_removal({0.3, products.data()}, along_output, nullptr);
    CHECK(along_error == error_after);
  }
}

}  // namespace kvsim::row_products_test
