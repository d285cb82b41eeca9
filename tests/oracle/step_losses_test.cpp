// The costs of missing tokens, and that optimum and certificate are exact for each of them.

#include "oracle/step_losses.h"

#include <catch2/catch.hpp>

#include "policies/registry/spec.h"
#include "sim/base/errors.h"
#include "sim/curve/curve.h"
#include "tests/oracle/small_attention.h"
#include "tests/support/units.h"
#include "tests/traces/attention.h"

namespace kvsim::step_losses_test {

using namespace oracle_test;
using test_support::random_unit;

/// A unit of two query heads with two samples of gradients, and with learned sinks if the seed is
/// odd.
Unit unit_of(int tokens, int prompt, std::uint64_t seed) {
  return random_unit({.tokens = tokens,
                      .value_dim = 3,
                      .group = 2,
                      .prompt_length = prompt,
                      .gradient_samples = 2,
                      .spans = {{tokens - 6, tokens - 2, "answer"}},
                      .sink_logit = seed % 2 == 0 ? std::nullopt : std::optional(0.5F)},
                     seed);
}

/// What query head h loses at step t without token j, by the definitions.
double defined_loss(const Unit& unit, const std::string& cost, int h, int t, int j) {
  const Eigen::MatrixXd attention = traces_test::attention(unit, h);
  if (cost == "mass") return attention(t, j) / unit.group_size();
  const Eigen::MatrixXd value = unit.value.cast<double>();
  const Eigen::RowVectorXd away = value.row(j) - attention.row(t) * value;
  if (cost == "value") return attention(t, j) * away.norm() / unit.group_size();
  double sum = 0;
  for (const auto& sample : unit.output_score_grad) {
    const double change = attention(t, j) * away.dot(sample[h].row(t).cast<double>());
    sum += change * change / 2;
  }
  return sum / static_cast<double>(unit.output_score_grad.size());
}

/// Per step and token, summed over the group; 0 where the step does not count.
FutureAttention defined_losses(const Unit& unit, const std::string& cost, bool answers_only,
                               const EvictionSteps& steps) {
  Rows rows;
  for (int t = 0; t < unit.num_tokens(); ++t) {
    std::vector<float>& row = rows.emplace_back(t + 1, 0.0F);
    const Span& answer = unit.spans.front();
    if (answers_only && (t < answer.start - 1 || t > answer.end - 2)) continue;
    for (int j = 0; j <= t; ++j) {
      for (int h = 0; h < unit.group_size(); ++h) {
        row[j] += static_cast<float>(defined_loss(unit, cost, h, t, j));
      }
    }
  }
  return FutureAttention(rows, steps.first_measured(), steps.protocol());
}

Future future_of(const Unit& unit, Mode mode, int interval) {
  static const auto backend = make_cpu_backend();
  return Future(unit, eviction_steps(unit, {.mode = mode, .eviction_interval = interval}),
                *backend);
}

Plan plan_of(const std::string& spec, const Future& future, int budget) {
  const Spec oracle(spec);
  const std::vector<int> budgets = {budget};
  const auto planner = oracle.policy().make_planner(oracle.params());
  return planner->plan({&future, 1}, {&budgets, 1}).front().front();
}

TEST_CASE("what a step loses without a token is what the cost's definition says", "[losses]") {
  const std::string cost = GENERATE("mass", "value", "predicted");
  const std::string weight = GENERATE("uniform", "spans");
  const Unit unit = unit_of(20, 0, 3);
  const Future future = future_of(unit, Mode::stream, 1);
  const StepLosses losses(future,
                          loss_of(Spec("optimal:cost=" + cost + ",weight=" + weight).params()));
  const FutureAttention expected = defined_losses(unit, cost, weight == "spans", future);
  for (int step = 0; step < 20; ++step) {
    for (int token = 0; token <= step; ++token) {
      CAPTURE(cost, weight, step, token);
      CHECK(losses.rows().row(step)[token] ==
            Approx(expected.row(step)[token]).epsilon(1e-4).margin(1e-7));
    }
  }
  CHECK(losses.num_steps() == (weight == "spans" ? 4 : 20));
}

TEST_CASE("for every cost and weight optimal loses as little as the best eviction sequence",
          "[losses]") {
  const std::string cost = GENERATE("mass", "value", "predicted");
  const std::string weight = GENERATE("uniform", "spans");
  const int prompt = GENERATE(0, 4);
  const int interval = GENERATE(1, 3, kNeverEvict);
  if (prompt == 0 && interval == kNeverEvict) return;
  for (const std::uint64_t seed : {1U, 2U}) {
    const Unit unit = unit_of(8, prompt, seed);
    const Future future = future_of(unit, prompt == 0 ? Mode::stream : Mode::prefill, interval);
    const FutureAttention losses = defined_losses(unit, cost, weight == "spans", future);
    for (const int budget : {1, 2, 3, 5}) {
      for (const int recent : {0, 1}) {
        CAPTURE(cost, weight, prompt, interval, seed, budget, recent);
        const Plan plan = plan_of(
            "optimal:recent=" + std::to_string(recent) + ",cost=" + cost + ",weight=" + weight,
            future, budget);
        const std::vector<int> evictions = future.num_evictions(budget);
        const double best = least_loss(
            losses, [&](int step) { return evictions[step] > 0 ? budget : 8; }, recent);
        CHECK(lost(losses, plan.schedule) == Approx(best).epsilon(1e-4).margin(1e-6));
      }
    }
  }
}

TEST_CASE("a certificate bounds the optimum of its own cost from below", "[losses]") {
  const std::string loss = std::string("cost=") + GENERATE("mass", "value", "predicted") +
                           ",weight=" + GENERATE("uniform", "spans");
  const int prompt = GENERATE(0, 12);
  const Unit unit = unit_of(40, prompt, 5);
  const Future future = future_of(unit, prompt == 0 ? Mode::stream : Mode::prefill, 1);
  const StepLosses losses(future, loss_of(Spec("optimal:" + loss).params()));
  for (const int budget : {4, 10}) {
    CAPTURE(loss, prompt, budget);
    const Plan certificate = plan_of("certificate:gap=0.001," + loss, future, budget);
    const double optimum =
        lost(losses.rows(), plan_of("optimal:" + loss, future, budget).schedule) /
        losses.num_steps();
    REQUIRE(certificate.proof);
    CHECK(certificate.proof->loss ==
          Approx(lost(losses.rows(), certificate.schedule) / losses.num_steps()).margin(1e-6));
    CHECK(certificate.proof->loss >= optimum * (1 - 1e-4) - 1e-7);
    CHECK(certificate.proof->loss_bound <= optimum * (1 + 1e-4) + 1e-7);
    CHECK(certificate.proof->loss_bound > 0.5 * optimum - 1e-7);
    CHECK(certificate.proof->recall_bound.has_value() == (loss == "cost=mass,weight=uniform"));
  }
}

TEST_CASE("a curve plans every budget of a cost as a pass of its own would", "[losses]") {
  const std::string spec = std::string("optimal:recent=2,cost=") + GENERATE("value", "predicted") +
                           ",weight=" + GENERATE("uniform", "spans");
  const Unit unit = unit_of(60, 20, 7);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const Future future = future_of(unit, mode, 1);
  const StepLosses losses(future, loss_of(Spec(spec).params()));
  const Curve curve = curves_of(unit, std::vector{Spec(spec)},
                                {.protocol = {.mode = mode}, .schedules = true}, future.backend())
                          .front();
  for (const int budget : {1, 2, 7, 30, 60}) {
    CAPTURE(spec, budget);
    CHECK(lost(losses.rows(), curve.evicted_after[budget - 1]) ==
          Approx(lost(losses.rows(), plan_of(spec, future, budget).schedule)).margin(1e-9));
  }
}

TEST_CASE("a unit without what a cost needs is refused", "[losses]") {
  Unit unit = unit_of(12, 10, 1);
  const auto plan = [&](const std::string& loss) {
    plan_of("optimal:" + loss, future_of(unit, Mode::prefill, 1), 4);
  };
  CHECK_THROWS_WITH(plan("weight=spans"), Catch::Contains("a span labelled answer"));
  unit.output_score_grad.clear();
  CHECK_THROWS_WITH(plan("cost=predicted"), Catch::Contains("gradients"));
  CHECK_NOTHROW(plan("cost=value"));
}

}  // namespace kvsim::step_losses_test
