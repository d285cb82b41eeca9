#include "sim/kernels/value_kernels.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/support/normal_numbers.h"

namespace kvsim::value_kernels_test {

using namespace test_support;

constexpr int kTokens = 300;
constexpr int kValueDim = 41;

AlignedRows some_weights() {
  AlignedRows rows(kTokens, kBlockSteps);
  const std::vector<float> numbers = normal_numbers(kTokens * kBlockSteps, 1, 1);
  std::copy(numbers.begin(), numbers.end(), rows.row(0));
  return rows;
}

Matrix some_values() {
  const std::vector<float> numbers = normal_numbers(kTokens * kValueDim, 1, 2);
  return Eigen::Map<const Matrix>(numbers.data(), kTokens, kValueDim);
}

TEST_CASE("kernels: values in panels are those of the tokens") {
  const Matrix value = some_values();
  const ValuePanels panels(value);
  for (int dim = 0; dim < kValueDim; ++dim) {
    const float* panel = panels.panel(dim / ValuePanels::kDims);
    CAPTURE(dim);
    for (int token = 0; token < kTokens; ++token) {
      REQUIRE(panel[token * ValuePanels::kStride + dim % ValuePanels::kDims] == value(token, dim));
    }
  }
}

TEST_CASE("kernels: products of weights and values add up, whatever the tile") {
  const int dims = GENERATE(1, 4, 8, 11, 13, 24);
  const int first_dim = GENERATE(0, 12);
  const int num_terms = GENERATE(0, 1, 127, 128, 300);
  const AlignedRows weight = some_weights();
  const Matrix value = some_values();
  const ValuePanels panels(value);
  const WeightedValues of{weight, panels};
  std::vector<std::int32_t> terms(num_terms);
  std::iota(terms.rbegin(), terms.rend(), 0);
  const std::vector<double> before(dims * kBlockSteps, 5);
  std::vector<double> sum(dims * kBlockSteps);
  const std::span<const std::int32_t> all(terms);
  const std::size_t num_added = all.size() / 3;
  std::vector<float> common(dims * kBlockSteps);
  sum_products(of, all.first(std::min<std::size_t>(all.size(), 40)), first_dim, dims,
               common.data());
  const std::vector<float> twos(dims * kBlockSteps, 2);
  const std::vector<const float*> added{common.data(), twos.data()};
  const std::vector<const float*> removed{twos.data(), common.data(), twos.data()};
  const bool has_sums = GENERATE(false, true);
  Terms summed{all.first(num_added), all.subspan(num_added)};
  if (has_sums) {
    summed.added_sums = added;
    summed.removed_sums = removed;
  }
  add_products(of, summed, first_dim, dims, before.data(), sum.data());
  for (int d = 0; d < dims; ++d) {
    for (int step = 0; step < kBlockSteps; ++step) {
      double expected = has_sums ? 3 : 5;
      double of_common = 0;
      for (std::size_t i = 0; i < terms.size(); ++i) {
        const double product = double{weight.row(terms[i])[step]} * value(terms[i], first_dim + d);
        expected += i < num_added ? product : -product;
        if (i < 40) of_common += product;
      }
      REQUIRE(sum[d * kBlockSteps + step] == Approx(expected).margin(1e-4));
      REQUIRE(common[d * kBlockSteps + step] == Approx(of_common).margin(1e-4));
    }
  }
}

TEST_CASE("kernels: sums over no token are what they start from") {
  const int dims = GENERATE(1, 12, 21);
  const AlignedRows weight(0, kBlockSteps);
  const ValuePanels panels(Matrix(0, dims));
  const WeightedValues of{weight, panels};
  const std::vector<double> before(dims * kBlockSteps, 5);
  std::vector<double> sum(dims * kBlockSteps);
  add_products(of, {}, 0, dims, before.data(), sum.data());
  CHECK(sum == before);
  std::vector<float> none(dims * kBlockSteps, 1);
  sum_products(of, {}, 0, dims, none.data());
  CHECK(none == std::vector<float>(none.size(), 0));
  const std::vector<double> ones(kBlockSteps, 1);
  std::vector<double> square(kBlockSteps, 0);
  add_squared_differences(of, {before.data(), ones.data()}, {}, 0, {before.data(), ones.data()},
                          dims, square.data(), nullptr);
  CHECK(square == std::vector<double>(kBlockSteps, 0));
}

// In the order in which every processor adds them.
double sum_of_squares(std::span<const double> x) {
  double sum = 0;
  while (!x.empty()) {
    const std::size_t count = x.size() >= ValuePanels::kDims ? ValuePanels::kDims
                              : x.size() >= 4                ? 4
                                                             : 1;
    double parts[2] = {};
    for (std::size_t d = 0; d < count; ++d) parts[d % 2] += x[d] * x[d];
    sum += parts[0] + parts[1];
    x = x.subspan(count);
  }
  return sum;
}

TEST_CASE("kernels: squares are added in one order, however many registers there are") {
  const int dims = GENERATE(range(12, 25));
  const AlignedRows weight = some_weights();
  const Matrix value = some_values();
  const ValuePanels panels(value);
  // Floats, so that squares are exact, fused with their sum or not.
  const std::vector<float> numbers = normal_numbers(dims * kBlockSteps, 1, 5);
  const std::vector<double> a(numbers.begin(), numbers.end());
  const std::vector<double> ones(kBlockSteps, 1);
  const std::vector<double> b(a.size(), 0);
  std::vector<double> square(kBlockSteps, 0);
  add_squared_differences({weight, panels}, {a.data(), ones.data()}, {}, 0, {b.data(), ones.data()},
                          dims, square.data(), nullptr);
  for (int step = 0; step < kBlockSteps; ++step) {
    CAPTURE(dims, step);
    std::vector<double> x(dims);
    for (int d = 0; d < dims; ++d) x[d] = a[d * kBlockSteps + step];
    REQUIRE(square[step] == sum_of_squares(x));
  }
}

TEST_CASE("kernels: squared differences are those of the scaled rows and evicted terms") {
  const int dims = GENERATE(1, 13, 24);
  const int num_evicted = GENERATE(0, 1, 200);
  const AlignedRows weight = some_weights();
  const Matrix value = some_values();
  const ValuePanels panels(value);
  std::vector<EvictedTerm> evicted;
  for (int i = 0; i < num_evicted; ++i) {
    const int first_row = i * kBlockSteps / num_evicted;
    evicted.push_back({i + 7, first_row});
  }
  std::vector<double> a(dims * kBlockSteps);
  std::iota(a.begin(), a.end(), 0);
  const std::vector<double> b(dims * kBlockSteps, 2);
  std::vector<double> twice(kBlockSteps, 2);
  twice[7] = 0.5;
  const std::vector<double> thrice(kBlockSteps, 3);
  std::vector<double> square(kBlockSteps, 1);
  std::vector<float> difference(dims * kBlockSteps);
  add_squared_differences({weight, panels}, {a.data(), twice.data()}, evicted, 12,
                          {b.data(), thrice.data()}, dims, square.data(), difference.data());
  for (int step = 0; step < kBlockSteps; ++step) {
    double expected = 1;
    for (int d = 0; d < dims; ++d) {
      double sum = a[d * kBlockSteps + step];
      for (const EvictedTerm& term : evicted) {
        const double product = double{weight.row(term.token)[step]} * value(term.token, 12 + d);
        if (term.first_row > kMiddleRow && step >= term.first_row) sum += product;
        if (term.first_row <= kMiddleRow && step < term.first_row) sum -= product;
      }
      const double scaled = twice[step] * (sum - 6);
      expected += scaled * scaled;
      CHECK(difference[d * kBlockSteps + step] == Approx(scaled).margin(1e-4));
    }
    CHECK(square[step] == Approx(expected));
  }
}

TEST_CASE("kernels: the products of columns are those of their numbers") {
  const int dims = GENERATE(1, 16, 129);
  const std::vector<float> a = normal_numbers(dims * kBlockSteps, 1, 3);
  const std::vector<float> b = normal_numbers(dims * kBlockSteps, 1, 4);
  std::vector<double> product(kBlockSteps);
  multiply_columns(a.data(), b.data(), dims, product.data());
  for (int step = 0; step < kBlockSteps; ++step) {
    double expected = 0;
    for (int d = 0; d < dims; ++d) {
      expected += double{a[d * kBlockSteps + step]} * b[d * kBlockSteps + step];
    }
    CHECK(product[step] == Approx(expected));
  }
}

}  // namespace kvsim::value_kernels_test
