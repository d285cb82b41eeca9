#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "analysis/bounds/h2o_theorem.h"
#include "tests/analysis/analysed.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::h2o_bound_test {

using test_support::random_unit;
using test_support::ReferenceAttention;
using test_support::unit_of_logits;

const double kGreedy = 1 - 1 / std::numbers::e;

/// The largest sum of `budget` of the scores, by trying all sets.
double best_by_brute_force(const std::vector<double>& scores, int budget) {
  double best = 0;
  for (unsigned set = 0; set < 1U << scores.size(); ++set) {
    if (__builtin_popcount(set) > budget) continue;
    double sum = 0;
    for (std::size_t j = 0; j < scores.size(); ++j) sum += (set >> j & 1U) != 0 ? scores[j] : 0;
    best = std::max(best, sum);
  }
  return best;
}

/// The scores of a function after each step, by its definition: [t][j].
using Scores = std::vector<std::vector<double>>;

/// The attention of a query head at step t over the tokens for which `attends` is true.
template <class Attends>
std::vector<double> attention_over(const ReferenceAttention& head, int t, Attends attends) {
  std::vector<double> attention(t + 1, 0);
  double sum = 0;
  for (int j = 0; j <= t; ++j) sum += attends(j) ? std::exp(head.logit[t][j]) : 0;
  for (int j = 0; j <= t; ++j) attention[j] = attends(j) ? std::exp(head.logit[t][j]) / sum : 0;
  return attention;
}

/// o of Definition D.9, or of Definition D.10 over what the replay attends to; the group's mean.
Scores scores_of(const Unit& unit, const PolicyRun& run, bool accumulates, bool approximates) {
  Scores scores;
  for (int t = 0; t < unit.num_tokens(); ++t) {
    std::vector<double> now(unit.num_tokens(), 0);
    if (accumulates && t > 0) now = scores.back();
    for (int head = 0; head < unit.group_size(); ++head) {
      const std::vector<double> attention = attention_over(
          ReferenceAttention(unit, head), t,
          [&](int j) { return !approximates || run.trajectory.evicted_after[j] >= t; });
      for (int j = 0; j <= t; ++j) now[j] += attention[j] / unit.group_size();
    }
    scores.push_back(now);
  }
  return scores;
}

TEST_CASE("h2o-bound: every quantity is that of the definitions", "[analysis]") {
  const int n = 12;
  const Unit unit = random_unit({.tokens = n, .group = 2}, 21);
  const int budget = 4;
  const bool approximates = GENERATE(false, true);
  const bool accumulates = GENERATE(true, false);
  const std::string h = GENERATE("identity", "sqrt", "log1p");
  // The policy decides by the function's scores.
  const PolicyRun run =
      run_of(approximates ? "h2o:recent=0" : "h2o:recent=0,score=full", budget, unit);
  const auto value = [&](double sum) {
    return h == "sqrt" ? std::sqrt(sum) : h == "log1p" ? std::log1p(sum) : sum;
  };
  const Scores exact = scores_of(unit, run, accumulates, false);
  const Scores used = scores_of(unit, run, accumulates, approximates);
  /// The value at step t of the set held after step `after`.
  const auto worth = [&](const Scores& scores, int t, int after) {
    double sum = 0;
    for (int j = 0; j <= after; ++j) {
      if (run.trajectory.evicted_after[j] > after) sum += scores[t][j];
    }
    return value(sum);
  };
  double theta = 0;
  double gamma = 0;
  double printed = 0;
  double epsilon = 0;
  double induction = kGreedy;
  double lost = 0;
  std::vector<double> ratios;
  std::vector<double> optima;
  for (int t = budget; t < n; ++t) {
    const double now =
        value(best_by_brute_force({exact[t].begin(), exact[t].begin() + t + 1}, budget));
    const double fall = 1 - worth(used, t, t - 1) / worth(used, t - 1, t - 1);
    theta = std::max(theta, fall);
    induction *= 1 - std::max(0.0, fall);
    if (!optima.empty()) {
      gamma = std::max(gamma, 1 - optima.back() / now);
      printed = std::max(printed, 1 - now / optima.back());
      induction *= std::min(1.0, optima.back() / now);
    }
    const double above = std::max(0.0, worth(used, t, t) - worth(exact, t, t));
    epsilon = std::max(epsilon, above);
    lost += above;
    optima.push_back(now);
    ratios.push_back(worth(exact, t, t) / now);
  }
  const std::string spec =
      fmt::format("h2o-bound:h={},score={},function={}", h, accumulates ? "accumulated" : "step",
                  approximates ? "approximate" : "exact");
  CAPTURE(spec);
  const std::vector<Row> rows = analyse(spec, unit, {run});
  REQUIRE(rows.size() == 2);
  for (const Row& row : rows) {
    CHECK(row.integer("steps") == 8);
    CHECK(row.real("ratio_min") ==
          Approx(*std::min_element(ratios.begin(), ratios.end())).epsilon(1e-5));
    CHECK(row.real("theta") == Approx(theta).margin(1e-6));
    CHECK(row.real("gamma") == Approx(gamma).margin(1e-6));
    CHECK(row.real("gamma_printed") == Approx(printed).margin(1e-6));
    CHECK(row.real("alpha") == Approx(120 * std::max(theta, gamma)).epsilon(1e-4));
    CHECK(row.real("epsilon0") == Approx(epsilon).margin(1e-6));
    CHECK(row.real("beta") == Approx(120 * epsilon).margin(1e-4));
    CHECK(row.real("epsilon0_below") == 0);
    CHECK(row.is_null("bound"));
    CHECK(row.is_null("holds"));
    CHECK(row.integer("assumptions_hold") == 0);
    if (accumulates) CHECK(row.real("greedy_share") == 1);
    const double reached = induction - lost / optima.back();
    CHECK(row.is_null("induction_bound") == (reached <= 0));
    if (reached > 0) CHECK(row.real("induction_bound") == Approx(reached).margin(1e-5));
    if (!approximates) CHECK(row.real("ratio_min") >= row.real("induction_bound"));
  }
}

TEST_CASE("h2o-bound: attention over fewer tokens is never less", "[analysis]") {
  // So the approximate function is nowhere below the exact one, as Lemma D.30 needs.
  const Unit unit = random_unit({.tokens = 60, .group = 2}, 5);
  for (const char* policy : {"h2o", "window", "random", "h2o:keep=light"}) {
    const Row row =
        analyse("h2o-bound:function=approximate", unit, {run_of(policy, 9, unit)}).at(0);
    CAPTURE(policy);
    CHECK(row.real("epsilon0_below") == 0);
    CHECK(row.real("epsilon0") > 0);
  }
}

TEST_CASE("h2o-bound: attention to one token alone meets the theorem's assumptions", "[analysis]") {
  // Everything goes to token 0: scores of a step never fall, so theta = gamma = 0.
  const Unit unit = unit_of_logits(40, [](int, int j) { return j == 0 ? 60.0 : 0.0; });
  const Row row =
      analyse("h2o-bound:score=step", unit, {run_of("h2o:recent=0,score=full", 4, unit)}).at(0);
  CHECK(row.real("ratio_min") == Approx(1));
  CHECK(row.real("bound") == Approx(kGreedy).epsilon(1e-3));
  CHECK(row.real("guaranteed_ratio") == Approx(kGreedy).epsilon(1e-3));
  CHECK(row.integer("assumptions_hold") == 1);
  CHECK(row.text("broken_assumptions") == "");
  CHECK(row.integer("holds") == 1);
}

TEST_CASE("h2o-bound: one heavy token among equal ones meets those of the approximate form",
          "[analysis]") {
  // Token 0 has the weight e^12, every other token 1. A cache of 4 that keeps token 0 attends to it
  // and to 4 others, so that f~ falls once, from 1 at step 3 to (e^12 + 3) / (e^12 + 4). The
  // optimum (e^12 + 3) / (e^12 + t) falls with t: gamma = 0. It is also what H2O keeps.
  const double heavy = std::exp(12.0);
  const int n = 40;
  const Unit unit = unit_of_logits(n, [](int, int j) { return j == 0 ? 12.0 : 0.0; });
  const Row row =
      analyse("h2o-bound:score=step,function=approximate", unit, {run_of("h2o:recent=0", 4, unit)})
          .at(0);
  const double epsilon = (heavy + 3) / (heavy + 4) - (heavy + 3) / (heavy + n - 1);
  CHECK(row.real("ratio_min") == Approx(1));
  CHECK(row.real("alpha") == Approx(10 * n / (heavy + 4)).epsilon(1e-3));
  CHECK(row.real("gamma") == Approx(0).margin(1e-9));
  CHECK(row.real("epsilon0") == Approx(epsilon).epsilon(1e-3));
  CHECK(row.real("beta") == Approx(10 * n * epsilon).epsilon(1e-3));
  CHECK(row.real("beta") == Approx(0.086).epsilon(0.01));
  CHECK(row.real("guaranteed_ratio") == Approx(row.real("bound") - row.real("beta")).epsilon(1e-3));
  CHECK(row.text("broken_assumptions") == "");
  CHECK(row.integer("assumptions_hold") == 1);
  CHECK(row.integer("holds") == 1);
}

TEST_CASE("h2o-bound: the theorem's inequality can fail where the policy is not greedy",
          "[analysis]") {
  H2oTheorem theorem(10);
  theorem.add({.optimum = 1, .achieved = 1, .chosen = 1, .held = 1, .earlier = 1});
  theorem.add({.optimum = 1,
               .achieved = 0.5,
               .chosen = 0.5,
               .held = 1,
               .earlier = 1,
               .evicts = true,
               .is_greedy = false});
  CHECK(theorem.bound() == Approx(kGreedy));
  CHECK(theorem.holds() == false);
  CHECK(theorem.broken_assumptions() ==
        std::vector<std::string>{"the policy does not always evict the lowest score"});
}

TEST_CASE("h2o-bound: a beta above the optimum guarantees nothing", "[analysis]") {
  H2oTheorem theorem(10);
  for (int i = 0; i < 2; ++i) {
    theorem.add({.optimum = 1,
                 .achieved = 0.9,
                 .chosen = 1,
                 .held = 1,
                 .earlier = 1,
                 .evicts = true,
                 .is_greedy = true});
  }
  CHECK(theorem.epsilon0() == Approx(0.1));
  CHECK(theorem.beta() == Approx(10));
  CHECK_FALSE(theorem.guaranteed_ratio());
  CHECK_FALSE(theorem.holds());
  // Lemma D.30 with each step's own: (1 - 1/e) - 2 * 0.1.
  CHECK(theorem.induction_bound() == Approx(kGreedy - 0.2));
  CHECK(theorem.broken_assumptions().empty());
}

TEST_CASE("h2o-bound: an approximate function below the exact one breaks the lemma", "[analysis]") {
  H2oTheorem theorem(10);
  for (int i = 0; i < 2; ++i) {
    theorem.add({.optimum = 1, .achieved = 0.9, .chosen = 0.8, .held = 1, .earlier = 1});
  }
  CHECK(theorem.epsilon0() == 0);
  CHECK(theorem.epsilon0_below() == Approx(0.1));
  CHECK(theorem.broken_assumptions() ==
        std::vector<std::string>{"the approximate function is below the exact one"});
}

TEST_CASE("h2o-bound: under an allocation a head is measured by its own budget", "[analysis]") {
  const Unit unit = random_unit({.tokens = 40}, 3);
  PolicyRun run = run_of("h2o:recent=0,score=full", 20, unit);
  run.budget = 10;  // the mean over heads
  const Row row = analyse("h2o-bound", unit, {run}).at(0);
  CHECK(row.integer("peak_tokens") == 20);
  CHECK(row.integer("steps") == 20);
  CHECK(row.real("ratio_mean") <= 1);
}

}  // namespace kvsim::analysis_test::h2o_bound_test
