#include "sim/kernels/attention_kernels.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/normal_numbers.h"
#include "tests/support/units.h"

namespace kvsim::attention_kernels_test {

using namespace test_support;

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
  float offset = -std::numeric_limits<float>::infinity();
  const double sum = exponentials(logit, weight.data(), offset);
  for (int i = 0; i < count; ++i) {
    const double expected = std::exp(double{logit[i]} - double{most});
    const double rounding = 6e-8 * (most - logit[i]);  // of the difference of logits
    const double allowed = (3e-7 + rounding) * expected + 3e-45;
    REQUIRE(std::abs(weight[i] - expected) <= allowed);
  }
  CHECK(sum == Approx(std::accumulate(weight.begin(), weight.end(), 0.0)).epsilon(1e-14));
  CHECK(*std::max_element(weight.begin(), weight.end()) == 1);
  CHECK(offset == most);
}

TEST_CASE("kernels: exponentials take an offset above all logits") {
  const std::vector<float> logit = normal_numbers(37, 5, 3);
  std::vector<float> weight(logit.size(), -1);
  const float most = *std::max_element(logit.begin(), logit.end());
  for (const float least : {most - 1, most, most + 2.5F, most + 200}) {
    float offset = least;
    const double sum = exponentials(logit, weight.data(), offset);
    CHECK(offset == std::max(least, most));
    for (std::size_t i = 0; i < logit.size(); ++i) {
      const double expected = std::exp(double{logit[i]} - double{offset});
      REQUIRE(std::abs(weight[i] - expected) <= 3e-6 * expected + 3e-45);
    }
    CHECK(sum == Approx(std::accumulate(weight.begin(), weight.end(), 0.0)).epsilon(1e-14));
  }
}

TEST_CASE("kernels: a logit far below the largest has weight 0") {
  const std::vector<float> logit = {0, -105, -1e30F, -std::numeric_limits<float>::infinity()};
  std::vector<float> weight(4, -1);
  float offset = -std::numeric_limits<float>::infinity();
  CHECK(exponentials(logit, weight.data(), offset) == 1);
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

}  // namespace kvsim::attention_kernels_test
