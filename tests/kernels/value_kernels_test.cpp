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
    const float* panel = panels.at(dim - dim % ValuePanels::kDims);
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
