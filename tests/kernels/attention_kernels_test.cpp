#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>

#include "sim/kernels/value_kernels.h"
#include "tests/support/units.h"

namespace kvsim {
namespace {

using namespace test_support;

std::vector<float> normal_numbers(std::size_t count, float spread, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

TEST_CASE("kernels: logits are scaled products of queries and keys, at every width and depth") {
  const int tokens = GENERATE(1, 31, 32, 33, 130);
  const int dim = GENERATE(1, 3, 64);
  const int steps = GENERATE(1, 7, 8, 32);
  const Unit unit = random_unit({.tokens = std::max(tokens, steps), .head_dim = dim}, tokens + dim);
  Matrix logit = Matrix::Constant(steps, tokens, std::nanf(""));
  KeyPanels(unit.key, 0.25F).multiply(unit.query[0].data(), steps, tokens, logit.data());
  const Eigen::MatrixXd expected = 0.25 * unit.query[0].topRows(steps).cast<double>() *
                                   unit.key.topRows(tokens).cast<double>().transpose();
  CHECK((logit.cast<double>() - expected).cwiseAbs().maxCoeff() <= 1e-6 * dim);
}

TEST_CASE("kernels: a key replaces the earlier key at its place") {
  const Unit unit = random_unit({.tokens = 90, .head_dim = 7}, 5);
  const KeyPanels all(unit.key, 0.25F);
  KeyPanels some(7, 0.25F);
  for (int token = 0; token < 90; ++token) some.put(token % 40, unit.key.row(token).data());
  std::vector<float> expected(90);
  std::vector<float> found(40);
  all.multiply(unit.query[0].data(), 1, 90, expected.data());
  some.multiply(unit.query[0].data(), 1, 40, found.data());
  for (int place = 0; place < 40; ++place) {
    CHECK(found[place] == expected[place < 10 ? place + 80 : place + 40]);
  }
}

TEST_CASE("kernels: exponentials are within 3e-7 and the returned sum is that of the weights") {
  const int count = GENERATE(1, 5, 16, 17, 1000);
  const std::vector<float> logit = normal_numbers(count, 20, count);
  const float most = *std::max_element(logit.begin(), logit.end());
  std::vector<float> weight(count, -1);
  const double sum = exponentials(logit, weight.data());
  for (int i = 0; i < count; ++i) {
    const double expected = std::exp(double{logit[i]} - double{most});
    const double rounding = 6e-8 * (most - logit[i]);  // of the difference of logits
    const double allowed = (3e-7 + rounding) * expected + 3e-45;
    REQUIRE(std::abs(weight[i] - expected) <= allowed);
  }
  CHECK(sum == Approx(std::accumulate(weight.begin(), weight.end(), 0.0)).epsilon(1e-14));
  CHECK(*std::max_element(weight.begin(), weight.end()) == 1);
}

TEST_CASE("kernels: a logit far below the largest has weight 0") {
  const std::vector<float> logit = {0, -105, -1e30F, -std::numeric_limits<float>::infinity()};
  std::vector<float> weight(4, -1);
  CHECK(exponentials(logit, weight.data()) == 1);
  CHECK(weight == std::vector<float>{1, 0, 0, 0});
}

TEST_CASE("kernels: weights by token are the transpose, with 0 for missing steps") {
  const int steps = GENERATE(1, 4, 6, 32);
  const int width = GENERATE(1, 4, 7, 70);
  const std::vector<float> weight = normal_numbers(steps * width, 1, steps);
  AlignedRows by_token;
  arrange_by_token(weight.data(), steps, width, by_token);
  for (int token = 0; token < width; ++token) {
    for (int step = 0; step < kBlockSteps; ++step) {
      REQUIRE(by_token.row(token)[step] == (step < steps ? weight[step * width + token] : 0));
    }
  }
}

TEST_CASE("kernels: products of weights and values add up, whatever the tile") {
  const int dims = GENERATE(1, 4, 11, 24);
  const int first_dim = GENERATE(0, 3);
  const int num_terms = GENERATE(0, 1, 127, 128, 300);
  const std::vector<float> weight = normal_numbers(300 * kBlockSteps, 1, 1);
  const std::vector<float> value = normal_numbers(300 * 32, 1, 2);
  std::vector<Term> terms;
  for (int i = 0; i < num_terms; ++i) {
    terms.push_back({weight.data() + i * kBlockSteps, value.data() + i * 32});
  }
  const std::vector<double> before(dims * kBlockSteps, 5);
  std::vector<double> sum(dims * kBlockSteps);
  const std::span<const Term> all(terms);
  const std::size_t num_added = all.size() / 3;
  add_products(all.first(num_added), all.subspan(num_added), first_dim, dims, before.data(),
               sum.data());
  for (int d = 0; d < dims; ++d) {
    for (int step = 0; step < kBlockSteps; ++step) {
      double expected = 5;
      for (std::size_t i = 0; i < terms.size(); ++i) {
        const double product = double{terms[i].weight[step]} * terms[i].value[first_dim + d];
        expected += i < num_added ? product : -product;
      }
      REQUIRE(sum[d * kBlockSteps + step] == Approx(expected).margin(1e-4));
    }
  }
}

TEST_CASE("kernels: squared differences are those of the scaled rows and evicted terms") {
  const int dims = GENERATE(1, 13, 24);
  const int num_evicted = GENERATE(0, 1, 200);
  const std::vector<float> weight = normal_numbers(200 * kBlockSteps, 1, 1);
  const std::vector<float> value = normal_numbers(200 * 32, 1, 2);
  std::vector<EvictedTerm> evicted;
  for (int i = 0; i < num_evicted; ++i) {
    evicted.push_back({weight.data() + i * kBlockSteps, value.data() + i * 32, i % kBlockSteps});
  }
  std::vector<double> a(dims * kBlockSteps);
  std::iota(a.begin(), a.end(), 0);
  const std::vector<double> b(dims * kBlockSteps, 2);
  std::vector<double> twice(kBlockSteps, 2);
  twice[7] = 0.5;
  const std::vector<double> thrice(kBlockSteps, 3);
  std::vector<double> square(kBlockSteps, 1);
  add_squared_differences({a.data(), twice.data()}, evicted, 3, {b.data(), thrice.data()}, dims,
                          square.data());
  for (int step = 0; step < kBlockSteps; ++step) {
    double expected = 1;
    for (int d = 0; d < dims; ++d) {
      double sum = a[d * kBlockSteps + step];
      for (const EvictedTerm& term : evicted) {
        if (step >= term.first_row) sum += double{term.weight[step]} * term.value[3 + d];
      }
      expected += std::pow(twice[step] * sum - 6, 2);
    }
    CHECK(square[step] == Approx(expected));
  }
}

TEST_CASE("kernels: weights above a threshold are marked and counted, equal ones are not") {
  const int count = GENERATE(1, 64, 100, 130);
  std::vector<float> weight(count);
  for (int i = 0; i < count; ++i) weight[i] = static_cast<float>(i % 3);
  std::vector<std::uint64_t> above((count + 63) / 64, ~std::uint64_t{0});
  const int marked = mark_above(weight, 1, above.data());
  int expected = 0;
  for (int i = 0; i < count; ++i) {
    expected += i % 3 == 2;
    CHECK((above[i / 64] >> (i % 64) & 1) == (i % 3 == 2 ? 1 : 0));
  }
  CHECK(marked == expected);
}

}  // namespace
}  // namespace kvsim
