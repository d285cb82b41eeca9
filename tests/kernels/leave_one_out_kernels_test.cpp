#include "sim/kernels/leave_one_out_kernels.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

namespace kvsim::leave_one_out_kernels_test {

using Numbers = std::vector<double>;

Numbers numbers(std::size_t count, unsigned seed) {
  std::mt19937_64 bits(seed);
  Numbers result(count);
  for (double& number : result) number = static_cast<double>(bits() % 2001) / 1000 - 1;
  return result;
}

double dot(const double* a, const double* b, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// A cache of random tokens and what a query head gets from it. The weights are positive.
struct Cache {
  Cache(std::size_t held, std::size_t width, unsigned seed)
      : tokens(held),
        dims(width),
        values(numbers(padded_to_doubles(held) * dims, seed)),
        output(numbers(dims, seed + 1)),
        weight(padded_to_doubles(held), 0) {
    const Numbers raw = numbers(held, seed + 2);
    for (std::size_t j = 0; j < held; ++j) weight[j] = 1.1 + raw[j];
  }

  /// ô - o without token `left`; none: `tokens`.
  Numbers error_without(std::size_t left) const {
    Numbers error(dims, 0);
    double sum = 0;
    for (std::size_t j = 0; j < tokens; ++j) {
      if (j == left) continue;
      sum += weight[j];
      for (std::size_t d = 0; d < dims; ++d) error[d] += weight[j] * values[j * dims + d];
    }
    for (std::size_t d = 0; d < dims; ++d) error[d] = error[d] / sum - output[d];
    return error;
  }

  double weight_sum() const {
    double sum = 0;
    for (const double w : weight) sum += w;
    return sum;
  }

  std::size_t tokens;
  std::size_t dims;
  Numbers values;  // [padded tokens, dims]
  Numbers output;
  Numbers weight;
};

TEST_CASE("products and sums of rows are those of a loop", "[leave-one-out]") {
  for (const std::size_t count : {1U, 3U, 4U, 9U, 33U}) {
    for (const std::size_t stride : {8U, 40U, 72U}) {
      const Numbers a = numbers(6 * stride, 1);
      const Numbers b = numbers(count * stride, 2);
      Numbers product(6 * 48, 7.0);
      multiply_rows({a.data(), 6, stride}, {b.data(), count, stride}, product.data(), 48);
      for (std::size_t i = 0; i < 6; ++i) {
        for (std::size_t j = 0; j < 48; ++j) {
          const double expected =
              j < count ? dot(a.data() + i * stride, b.data() + j * stride, stride) : 7.0;
          CHECK(product[i * 48 + j] == Approx(expected).margin(1e-12));
        }
      }
      const Numbers weight = numbers(count, 3);
      Numbers sum(stride);
      sum_rows({b.data(), count, stride}, weight.data(), sum.data());
      for (std::size_t d = 0; d < stride; ++d) {
        double expected = 0;
        for (std::size_t j = 0; j < count; ++j) expected += weight[j] * b[j * stride + d];
        CHECK(sum[d] == Approx(expected).margin(1e-12));
      }
    }
  }
}

TEST_CASE("changes of an error are those of the output without a token", "[leave-one-out]") {
  for (const std::size_t tokens : {2U, 8U, 21U}) {
    const Cache cache(tokens, 8, 10);
    const Numbers present = cache.error_without(tokens);
    Numbers cached = present;
    for (std::size_t d = 0; d < 8; ++d) cached[d] += cache.output[d];
    const Numbers gradient = numbers(8, 20);
    const std::size_t columns = padded_to_doubles(tokens);
    Numbers numerator(columns);
    Numbers full(columns);
    Numbers square(columns);
    Numbers slope(columns);
    for (std::size_t j = 0; j < tokens; ++j) {
      const double* value = cache.values.data() + j * 8;
      numerator[j] = cache.weight_sum() * dot(cached.data(), value, 8);
      full[j] = dot(cache.output.data(), value, 8);
      square[j] = dot(value, value, 8);
      slope[j] = dot(gradient.data(), value, 8);
    }
    Numbers change(columns, 0.5);
    CHECK_FALSE(add_error_changes({.weight_sum = cache.weight_sum(),
                                   .square = dot(cached.data(), cached.data(), 8),
                                   .with_error = dot(present.data(), cached.data(), 8)},
                                  {.weight = cache.weight.data(),
                                   .numerator_product = numerator.data(),
                                   .output_product = full.data(),
                                   .square = square.data()},
                                  columns, change.data()));
    Numbers projected(columns, 0.5);
    const double before = dot(gradient.data(), present.data(), 8);
    CHECK_FALSE(add_projected_changes({.weight_sum = cache.weight_sum(),
                                       .cached = dot(gradient.data(), cached.data(), 8),
                                       .error = before},
                                      cache.weight.data(), slope.data(), columns,
                                      projected.data()));
    for (std::size_t j = 0; j < columns; ++j) {
      const Numbers error = cache.error_without(j < tokens ? j : tokens);
      const double after = dot(gradient.data(), error.data(), 8);
      CHECK(change[j] == Approx(0.5 + dot(error.data(), error.data(), 8) -
                                dot(present.data(), present.data(), 8)));
      CHECK(projected[j] == Approx(0.5 + after * after - before * before));
    }
  }
}

TEST_CASE("a dominant token is flagged and left out", "[leave-one-out]") {
  Numbers weight(8, 1e-6);
  Numbers share(8);
  CHECK_FALSE(set_moved_shares(8e-6, weight.data(), 8, share.data()));
  CHECK(share[3] == Approx(1.0 / 7));
  weight[3] = 1;
  CHECK(set_moved_shares(1 + 7e-6, weight.data(), 8, share.data()));
  CHECK(share[3] == 0);
  CHECK(share[2] == Approx(1e-6));
}

}  // namespace kvsim::leave_one_out_kernels_test
