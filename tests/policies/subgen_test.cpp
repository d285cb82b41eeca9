#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/policies/chi_square.h"
#include "tests/policies/subgen_tokens.h"

namespace kvsim::subgen_test {

using namespace policies_test;

TEST_CASE("subgen is an estimator", "[policies]") {
  CHECK(Spec("subgen").is_estimator());
  CHECK(Spec("subgen").make({.budget = 8}) == nullptr);
  CHECK(Spec("subgen").text() == "subgen:delta=4,s=0.25,t=4");
}

TEST_CASE("after one token subgen's estimate is exact", "[policies]") {
  const auto estimator = subgen("delta=1,s=3,t=2", 20);
  estimator->update({.token = 0, .key = std::vector<float>{1}, .value = std::vector<float>{7}});
  CHECK(held(*estimator) == std::vector<Held>{{0, true, 1, 1}});
}

TEST_CASE("the weights stand for all tokens: sum u = n, sum w |v|^2 = mu", "[policies]") {
  const Tokens tokens = random_tokens(80);
  for (const char* params : {"delta=0", "delta=2", "delta=3,s=5,t=1", "delta=1000,s=1,t=7"}) {
    const auto estimator = subgen(params, 40);
    double mu = 0;
    for (int token = 0; token < tokens.count(); ++token) {
      estimator->update(tokens.arrival(token));
      const auto squared_norm = [&](int i) {
        double sum = 0;
        for (const float x : tokens.values[static_cast<std::size_t>(i)]) sum += x * x;
        return sum;
      };
      mu += squared_norm(token);
      double denominators = 0;
      double numerators = 0;
      int previous = -1;
      for (const Entry& entry : estimator->entries()) {
        REQUIRE(entry.token > previous);  // one entry per token, ascending
        REQUIRE(entry.token <= token);
        REQUIRE((entry.numerator > 0) == entry.has_value);
        previous = entry.token;
        denominators += entry.denominator;
        numerators += entry.numerator * squared_norm(entry.token);
      }
      CAPTURE(params, token);
      REQUIRE(denominators == Approx(token + 1).epsilon(1e-12));
      REQUIRE(numerators == Approx(mu).epsilon(1e-6));
    }
  }
}

// One sum of an estimate over many seeds: its mean and the mean's standard error.
struct Estimates {
  double sum = 0;
  double squares = 0;
  int count = 0;

  void add(double x) {
    sum += x;
    squares += x * x;
    ++count;
  }
  double standard_errors_from(double truth) const {
    const double mean = sum / count;
    const double variance = squares / count - mean * mean;
    return std::fabs(mean - truth) / std::sqrt(variance / count);
  }
};

// A right estimator exceeds four standard errors once in 15,000 sums; the seeds are fixed.
TEST_CASE("both of subgen's sums are unbiased, with the cap on clusters or without", "[policies]") {
  const Tokens tokens = random_tokens(25, 3);
  const std::vector<float> query = {0.8F, -0.5F, 0.3F};
  std::vector<double> exponentials;
  double normalizer = 0;
  std::vector<double> product(3);
  for (std::size_t i = 0; i < tokens.keys.size(); ++i) {
    double logit = 0;
    for (std::size_t j = 0; j < 3; ++j) logit += static_cast<double>(query[j]) * tokens.keys[i][j];
    exponentials.push_back(std::exp(logit));
    normalizer += exponentials[i];
    for (std::size_t j = 0; j < 3; ++j) product[j] += exponentials[i] * tokens.values[i][j];
  }
  for (const char* params : {"delta=2,s=4,t=2", "delta=0,s=4,t=2", "delta=1000,s=1,t=1"}) {
    Estimates denominator;
    std::vector<Estimates> numerator(3);
    for (std::uint64_t seed = 0; seed < 10000; ++seed) {
      const auto estimator = subgen(params, 23, seed);
      for (int token = 0; token < tokens.count(); ++token) {
        estimator->update(tokens.arrival(token));
      }
      double u = 0;
      std::vector<double> w(3);
      for (const Entry& entry : estimator->entries()) {
        const auto i = static_cast<std::size_t>(entry.token);
        u += entry.denominator * exponentials[i];
        for (std::size_t j = 0; j < 3; ++j) {
          w[j] += entry.numerator * exponentials[i] * tokens.values[i][j];
        }
      }
      denominator.add(u);
      for (std::size_t j = 0; j < 3; ++j) numerator[j].add(w[j]);
    }
    CAPTURE(params);
    CHECK(denominator.standard_errors_from(normalizer) < 4);
    for (std::size_t j = 0; j < 3; ++j) CHECK(numerator[j].standard_errors_from(product[j]) < 4);
  }
}

// Values of one length and keys of one cluster make both coins of a token equally likely.
TEST_CASE("subgen samples values and keys independently of each other", "[policies]") {
  constexpr int kSeeds = 10000;
  const std::vector<float> one = {1};
  std::vector<int> pairs(16);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto estimator = subgen("delta=1,s=1,t=1", 4, seed);
    for (int token = 0; token < 4; ++token) estimator->update({token, one, one});
    std::size_t sampled_value = 4;
    std::size_t sampled_key = 4;
    for (const Entry& entry : estimator->entries()) {
      if (entry.has_value) sampled_value = static_cast<std::size_t>(entry.token);
      if (entry.denominator > 0) sampled_key = static_cast<std::size_t>(entry.token);
    }
    ++pairs.at(4 * sampled_value + sampled_key);
  }
  constexpr double kCritical15 = 44.26;  // of chi-square, at 1 in 10,000
  CHECK(chi_square(pairs, std::vector(16, 1. / 16), kSeeds) < kCritical15);
}

TEST_CASE("subgen holds a representative that no sample names", "[policies]") {
  const Tokens tokens = random_tokens(40);
  int unnamed = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto estimator = subgen("delta=1000,s=1,t=1", 8, seed);
    for (int token = 0; token < tokens.count(); ++token) estimator->update(tokens.arrival(token));
    REQUIRE(estimator->entries().front().token == 0);
    unnamed += held(*estimator).front() == Held{0, false, 0, 0};
  }
  CHECK(unnamed > 10);  // one sample of 40 tokens seldom is the first
}

TEST_CASE("values that are all zero leave subgen's numerator empty", "[policies]") {
  Tokens tokens = random_tokens(20);
  for (std::vector<float>& value : tokens.values) value.assign(value.size(), 0);
  const auto estimator = subgen("delta=1", 30);
  for (int token = 0; token < tokens.count(); ++token) {
    estimator->update(tokens.arrival(token));
    double denominators = 0;
    for (const Entry& entry : estimator->entries()) {
      REQUIRE_FALSE(entry.has_value);
      REQUIRE(entry.numerator == 0);
      denominators += entry.denominator;
    }
    REQUIRE(denominators == Approx(token + 1));
  }
}

TEST_CASE("subgen's first token need not be that of the text", "[policies]") {
  const Tokens tokens = random_tokens(40);
  const auto estimator = subgen("delta=2", 30);
  for (int token = 7; token < tokens.count(); ++token) {
    estimator->update(tokens.arrival(token));
    REQUIRE(estimator->entries().front().token == 7);  // the first representative
    double denominators = 0;
    for (const Entry& entry : estimator->entries()) denominators += entry.denominator;
    REQUIRE(denominators == Approx(token - 6));
  }
}

TEST_CASE("subgen draws by the seed alone", "[policies]") {
  const Tokens tokens = random_tokens(50);
  const auto entries = [&](std::uint64_t seed) {
    const auto estimator = subgen("delta=2", 30, seed);
    for (int token = 0; token < tokens.count(); ++token) {
      estimator->update(tokens.arrival(token));
    }
    return held(*estimator);
  };
  CHECK(entries(1) == entries(1));
  CHECK(entries(1) != entries(2));
}

}  // namespace kvsim::subgen_test
