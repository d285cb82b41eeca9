#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>
#include <random>

#include "analysis/bounds/scissorhands_theorem.h"
#include "oracle/oracles.h"
#include "tests/analysis/analysed.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::bounds_test {

using test_support::random_unit;
using test_support::unit_of_logits;

/// Expected share of the smallest `missing` of the mass, for the law c (x + b)^-k without end:
/// integrals of x (x + b)^-k up to the quantile, over that to infinity.
double exact_loss(double k, double b, double missing) {
  const double gamma = b * (std::pow(1 - missing, 1 / (1 - k)) - 1);
  const auto integral = [&](double x) {
    return -std::pow(x + b, 1 - k) * ((k - 1) * x + b) / ((k - 1) * (k - 2));
  };
  return 1 - integral(gamma) / integral(0);
}

/// The same for a law with an end, by summing over the law's quantiles in ascending order.
double loss_by_quantiles(const AssumedLaw& law, double share) {
  constexpr int kQuantiles = 100'000;
  const double end = std::pow(law.u / law.b, 1 - law.k);
  double missing = 0;
  double all = 0;
  for (int i = 0; i < kQuantiles; ++i) {
    const double p = (i + 0.5) / kQuantiles;
    const double x = law.b * (std::pow(1 - p * (1 - end), 1 / (1 - law.k)) - 1);
    all += x;
    if (p < 1 - share) missing += x;
  }
  return missing / all;
}

TEST_CASE("scissorhands-bound: the loss of the law is its integral", "[analysis]") {
  for (const double k : {2.5, 3.0, 6.0}) {
    for (const double share : {0.1, 0.5, 0.8}) {
      CHECK(loss_of_law({k, 2, 1e12}, share) == Approx(exact_loss(k, 2, 1 - share)).epsilon(1e-4));
    }
  }
  const AssumedLaw law{3, 1, 5};
  CHECK(loss_of_law(law, 0.3) == Approx(loss_by_quantiles(law, 0.3)).epsilon(1e-4));
  // No power overflows.
  CHECK(loss_of_law({5000, 1000, 1001}, 0.3) ==
        Approx(loss_by_quantiles({5000, 1000, 1001}, 0.3)).epsilon(1e-3));
  CHECK(loss_of_law({300, 1e-9, 1}, 0.3) < 1);
}

TEST_CASE(
    "scissorhands-bound: equation (11) bounds the loss of a law without end for budgets of half "
    "and more",
    "[analysis]") {
  for (const double k : {2.5, 3.0, 4.0, 6.0}) {
    const auto at = [&](double share) {
      return scissorhands_theorem({k, 1, 1e12}, share, 1e-9, 1000, 2000);
    };
    const auto lost = [&](double share) { return exact_loss(k, 1, 1 - share); };
    CHECK(at(0.5).loss * 0.98 == Approx(lost(0.5)).epsilon(1e-4));
    CHECK(at(0.6).loss > lost(0.6));
    CHECK(at(0.9).loss > lost(0.9));
    // Its last step but one replaces B / T_max by 1 - B / T_max.
    CHECK(at(0.4).loss < lost(0.4));
    CHECK(at(0.6).error == Approx(at(0.6).loss * 0.98 * 2.1));
  }
  CHECK(scissorhands_theorem({3, 1, 1e9}, 0.2, 0.05, 1000, 2000).loss < 0);
}

TEST_CASE("scissorhands-bound: with a larger epsilon the right side falls below the exact loss",
          "[analysis]") {
  CHECK(exact_loss(3, 1, 0.5) == Approx(0.0858).epsilon(1e-3));
  CHECK(scissorhands_theorem({3, 1, 1e9}, 0.5, 1e-9, 1000, 2000).loss ==
        Approx(0.0875).epsilon(1e-3));
  CHECK(scissorhands_theorem({3, 1, 1e9}, 0.5, 0.01, 1000, 2000).loss ==
        Approx(0.0818).epsilon(1e-3));
}

TEST_CASE(
    "scissorhands-bound: with u = 5 b equation (11) is below the exact loss at half the budget",
    "[analysis]") {
  // The proof divides by Delta <= 0.98 b as if it were at least 0.98 b. Here it is 2 b / 3.
  const AssumedLaw law{3, 1, 5};
  CHECK(delta_share(law) == Approx(2 / 3.0));
  CHECK(loss_by_quantiles(law, 0.5) == Approx(0.1215).epsilon(1e-3));
  CHECK(loss_of_law(law, 0.5) == Approx(0.1215).epsilon(1e-3));
  const auto theorem = scissorhands_theorem(law, 0.5, 1e-9, 1000, 2000);
  CHECK(theorem.loss == Approx(0.0875).epsilon(1e-3));
  CHECK(theorem.proven_loss == Approx(0.1287).epsilon(1e-3));
  // For k = 3 the step needs u >= 99 b.
  CHECK(delta_share({3, 1, 99}) == Approx(0.98));
}

TEST_CASE("scissorhands-bound: what the proof reaches before its last steps bounds the loss",
          "[analysis]") {
  for (const double k : {2.1, 2.5, 3.0, 6.0}) {
    for (const double u : {1.5, 5.0, 30.0, 1e6}) {
      for (const double share : {0.1, 0.3, 0.5, 0.7, 0.95}) {
        for (const double epsilon : {1e-9, 0.01, 0.05}) {
          CAPTURE(k, u, share, epsilon);
          const auto theorem = scissorhands_theorem({k, 1, u}, share, epsilon, 1000, 2000);
          CHECK(theorem.proven_loss >= loss_of_law({k, 1, u}, share) - 1e-6);
        }
      }
    }
  }
}

TEST_CASE("scissorhands-bound: the probability is that of the theorem", "[analysis]") {
  // epsilon b / ((k - 2) (u - b)) = 0.1 / 4, (1 - share) / (1 - epsilon) = 0.5 / 0.9.
  const auto theorem = scissorhands_theorem({3, 1, 5}, 0.5, 0.1, 10'001, 20'000);
  const double first = 20'000 * std::exp(-0.025 * 0.025 * 10'000);
  const double second = 20'000 * std::exp(-2 * std::pow(0.5 / 0.9, 2) * 10'000);
  CHECK(theorem.probability == Approx(1 - first - second));
}

/// Attention whose scores are drawn from (x + b)^-k, k = 3.
Unit power_law_unit(int tokens) {
  std::mt19937_64 bits(12);
  return unit_of_logits(tokens, [&](int, int) {
    const double uniform = (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53;
    return std::log(1 / std::sqrt(uniform) - 1);
  });
}

TEST_CASE("scissorhands-bound: planted scores give back their law and lose what it says",
          "[analysis]") {
  const Unit unit = power_law_unit(700);
  const Row row =
      analyse("scissorhands-bound:sample=4000", unit, {run_of("window", 350, unit)}).at(0);
  CHECK(row.real("exponent") == Approx(3).epsilon(0.15));
  CHECK(row.real("p_value") >= 0.1);
  CHECK(row.real("budget_share") == 0.5);
  // Between half and all of the scores are in the cache.
  CHECK(row.real("loss_of_largest") < 0.0858);
  CHECK(row.real("loss_of_largest") > 0.0858 / 4);
  CHECK(row.real("loss") > 2 * row.real("loss_of_largest"));
  CHECK(row.integer("assumptions_hold") == 0);
  CHECK(row.text("broken_assumptions") ==
        "the largest scores are not always kept; B/T < (1 + epsilon)/2; the probability is 0");
  CHECK(row.is_null("probability"));
  CHECK(row.real("proven_loss_bound") > row.real("loss_of_law"));
  CHECK(row.integer("proven_holds") == (row.real("loss") <= row.real("proven_loss_bound")));
  CHECK(row.real("loss_of_law") == Approx(0.0858).epsilon(0.4));
  CHECK(row.real("keeps_largest") < 0.5);
}

TEST_CASE("scissorhands-bound: a bound that says nothing is NULL", "[analysis]") {
  const Unit unit = power_law_unit(400);
  const std::vector<PolicyRun> runs{run_of("window", 30, unit), run_of("window", 300, unit)};
  const std::vector<Row> rows = analyse("scissorhands-bound:sample=2000", unit, runs);
  // Equation (11) is negative for small budgets.
  CHECK(rows.at(0).is_null("loss_bound"));
  CHECK(rows.at(0).is_null("error_bound"));
  CHECK(rows.at(0).is_null("holds"));
  CHECK(rows.at(0).real("proven_loss_bound") > 0);
  CHECK(rows.at(1).real("loss_bound") > 0);
  CHECK_FALSE(rows.at(1).is_null("holds"));
}

TEST_CASE("scissorhands-bound: the loss is that of the tokens before the step", "[analysis]") {
  const Unit unit = random_unit({.tokens = 30, .group = 2}, 6);
  const PolicyRun run = run_of("h2o", 6, unit);
  const std::vector<Row> rows = analyse("scissorhands-bound:start=10", unit, {run});
  REQUIRE(rows.size() == 2);
  for (const Row& row : rows) {
    const test_support::ReferenceAttention reference(unit, row.head);
    double loss = 0;
    double least = 0;
    double error = 0;
    for (int t = 10; t < 30; ++t) {
      std::vector<double> before(reference.full[t].begin(), reference.full[t].begin() + t);
      double sum = 0;
      double kept = 0;
      for (int j = 0; j < t; ++j) {
        sum += before[j];
        if (run.trajectory.evicted_after[j] >= t) kept += before[j];
      }
      std::sort(before.begin(), before.end(), std::greater<>());
      loss += 1 - kept / sum;
      least += 1 - (before[0] + before[1] + before[2] + before[3] + before[4] + before[5]) / sum;
      error += run.trajectory.output_error(row.head, t);
    }
    CHECK(row.real("loss") == Approx(loss / 20).epsilon(1e-5));
    CHECK(row.real("loss_of_largest") == Approx(least / 20).epsilon(1e-5));
    CHECK(row.real("output_error") == Approx(error / 20));
  }
}

}  // namespace kvsim::analysis_test::bounds_test
