// kvsim curve: caches that nest, and the one stack that stands for all of them.

#include "sim/curve/curve.h"

#include <catch2/catch.hpp>

#include "policies/registry/registry.h"
#include "sim/base/errors.h"
#include "tests/support/curves.h"
#include "tests/support/nesting.h"

namespace kvsim::curve_test {

using namespace test_support;
using Catch::Contains;

std::vector<int> every_budget(const Unit& unit) {
  std::vector<int> budgets(unit.num_tokens());
  std::iota(budgets.begin(), budgets.end(), 1);
  return budgets;
}

TEST_CASE("caches nest wherever a policy declares it", "[curve]") {
  for (const NestingCase& c : nesting_cases()) {
    for (const Spec& policy : policies_to_try()) {
      if (policy.is_oracle()) continue;
      CAPTURE(c.name, policy.text());
      CHECK_FALSE(first_not_nested(replay_every_budget(c.unit, policy, c.mode)));
    }
  }
}

TEST_CASE("a policy that does not declare it has caches that do not nest", "[curve]") {
  const UnitShape shape{.tokens = 70, .group = GENERATE(1, 2)};
  for (const char* text :
       {"h2o", "h2o:recent=0,score=sum", "h2o:recent=0,score=mean", "h2o:recent=0.5,score=full",
        "keydiff", "valuediff:recent=8", "lookback", "lru", "lfu", "kcenter",
        "scissorhands:history=8", "snapkv", "strided:h2=0.5", "fixed:h2=0.5"}) {
    const Spec policy(text);
    CAPTURE(text, shape.group);
    CHECK_FALSE(policy.nests());
    std::optional<int> found;
    for (unsigned seed = 1; seed <= 20 && !found; ++seed) {
      found = first_not_nested(replay_every_budget(random_unit(shape, seed), policy, Mode::stream));
    }
    CHECK(found.has_value());
  }
}

// Not with several query heads; and not with one, because attention underflows and is rounded.
TEST_CASE("tova over the cache does not nest", "[curve]") {
  CHECK_FALSE(Spec("tova").nests());
  const Unit grouped = random_unit({.tokens = 70, .group = 2}, 1);
  CHECK(first_not_nested(replay_every_budget(grouped, Spec("tova"), Mode::stream)));
  const Unit peaked = random_unit({.tokens = 70, .spread = 40}, 45);
  CHECK(first_not_nested(replay_every_budget(peaked, Spec("tova"), Mode::stream)));
}

TEST_CASE("a curve has the counts and the kept tokens of a replay at each budget", "[curve]") {
  for (const NestingCase& c : nesting_cases()) {
    for (const Spec& policy : policies_to_try()) {
      const Curve curve =
          curve_of(c.unit, policy, {.protocol = {.mode = c.mode}, .schedules = true});
      const auto replays = replay_every_budget(c.unit, policy, c.mode);
      REQUIRE(curve.budgets == every_budget(c.unit));
      REQUIRE(curve.attention_loss.size() == replays.size());
      for (std::size_t i = 0; i < replays.size(); ++i) {
        CAPTURE(c.name, policy.text(), i + 1);
        require_counts(curve, i, replays[i]);
      }
    }
  }
}

// Few budgets and many are computed by different classes.
TEST_CASE("a curve has the output errors of a replay at each budget", "[curve]") {
  for (const NestingCase& c : nesting_cases()) {
    const int n = c.unit.num_tokens();
    std::vector<std::vector<int>> all_asked = {every_budget(c.unit), {n}};
    if (n > 20) all_asked.push_back({1, 5, n / 2, n - 1});
    for (const Spec& policy : policies_to_try()) {
      const auto replays = replay_every_budget(c.unit, policy, c.mode);
      for (const auto& budgets : all_asked) {
        const Curve curve =
            curve_of(c.unit, policy, {.protocol = {.mode = c.mode}, .error_budgets = budgets});
        for (const int budget : budgets) {
          CAPTURE(c.name, policy.text(), budgets.size(), budget);
          check_errors(curve.output_error.at(budget), replays[budget - 1].result);
        }
      }
    }
  }
}

void check_long_order(const Unit& unit, const Spec& policy, Mode mode) {
  const std::vector<int> budgets = {1, 2, 17, 63, 64, 65, 150, 197, 198, 199};
  std::vector<Configuration> configurations;
  for (const int budget : budgets) configurations.push_back({policy, budget});
  const auto replays =
      replay(unit, configurations, {.protocol = {.mode = mode}, .seed = 1}, *make_cpu_backend());
  for (const auto& asked : {budgets, every_budget(unit)}) {
    const Curve curve =
        curve_of(unit, policy, {.protocol = {.mode = mode}, .error_budgets = asked});
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      CAPTURE(policy.text(), unit.value.cols(), unit.group_size(), asked.size(), budgets[i]);
      check_errors(curve.output_error.at(budgets[i]), replays[i].result);
    }
  }
}

// Tokens are added by 64, dimensions by up to 128.
TEST_CASE("long orders and values of any length have the errors of replays", "[curve]") {
  for (const char* policy : {"h2o:recent=7,score=full", "random", "lru:score=full"}) {
    for (const int value_dim : {2, 16, 21, 150}) {
      const UnitShape shape{.tokens = 200, .value_dim = value_dim, .group = 2, .prompt_length = 70};
      Unit unit = random_unit(shape, static_cast<std::uint64_t>(value_dim));
      check_long_order(unit, Spec(policy), Mode::stream);
      check_long_order(unit, Spec(policy), Mode::prefill);
      unit.sliding_window = 50;
      check_long_order(unit, Spec(policy), Mode::stream);
      unit.sliding_window = {};
      unit.sink_logit = {1.F, 7.F};
      check_long_order(unit, Spec(policy), Mode::stream);
      check_long_order(unit, Spec(policy), Mode::prefill);
    }
    const Unit peaked = random_unit({.tokens = 200, .value_dim = 20, .spread = 50}, 3);
    check_long_order(peaked, Spec(policy), Mode::stream);
  }
}

// An error may be smaller than the rounding of the two outputs.
TEST_CASE("values of one element have the mean errors of replays", "[curve]") {
  const Unit unit = random_unit({.tokens = 150, .value_dim = 1, .group = 2}, 5);
  const Spec policy("h2o:recent=7,score=full");
  const std::vector<int> some = {1, 20, 64, 65, 149};
  for (const auto& asked : {some, every_budget(unit)}) {
    const Curve curve = curve_of(unit, policy, {.error_budgets = asked});
    for (const int budget : some) {
      const std::vector<Configuration> configurations = {{policy, budget}};
      const Result replayed = replay(unit, configurations, {}, *make_cpu_backend()).front().result;
      CAPTURE(asked.size(), budget);
      const OutputErrors& errors = curve.output_error.at(budget);
      CHECK(same_error(errors.mean, *replayed.output_error_mean));
      CHECK(same_error(errors.max, *replayed.output_error_max));
      CHECK(errors.bound_violations == 0);
    }
  }
}

TEST_CASE("what all values have in common does not drown their errors", "[curve]") {
  Unit unit = random_unit({.tokens = 200, .value_dim = 8}, 5);
  unit.value.array() += 10;
  if (GENERATE(false, true)) unit.sink_logit = {GENERATE(0.F, 6.F)};
  check_long_order(unit, Spec("h2o:recent=7,score=full"), Mode::stream);
}

// Where the full output is exactly 0, the error is beyond single precision.
TEST_CASE("a curve has the largest error of a replay however large it is", "[curve]") {
  Unit unit = random_unit({.tokens = 40}, 3);
  unit.query.front().setZero();
  for (int token = 0; token < unit.num_tokens(); ++token) {
    unit.value.row(token).setConstant(token % 2 == 0 ? 1 : -1);
  }
  const Spec policy("window");
  const Curve curve = curve_of(unit, policy, {.error_budgets = {10}});
  const Result replayed = replay(unit, {{policy, 10}}, {}, *make_cpu_backend()).front().result;
  CHECK(*replayed.output_error_max > 1e300);
  CHECK(same_error(curve.output_error.at(10).max, *replayed.output_error_max));
}

TEST_CASE("output errors at some budgets are those at all budgets", "[curve]") {
  const Unit unit = random_unit({.tokens = 90, .group = 2, .spread = 6}, 7);
  const Spec policy("window");
  const Curve all = curve_of(unit, policy, {.error_budgets = every_budget(unit)});
  const Curve some = curve_of(unit, policy, {.error_budgets = {1, 17, 64, 90, 200}});
  REQUIRE(some.output_error.size() == 5);
  for (const auto& [budget, errors] : some.output_error) {
    CAPTURE(budget);
    const OutputErrors& same = all.output_error.at(std::min(budget, 90));
    CHECK(close(errors.mean, same.mean, 1e-6, 1e-12));
    CHECK(close(errors.max, same.max, 1e-6, 1e-9));
  }
  CHECK(curve_of(unit, policy, {}).output_error.empty());
}

TEST_CASE("the error of a nearly full cache is not drowned by rounding", "[curve]") {
  // All but a millionth of the attention is on the newest token.
  const Unit unit = unit_of_logits(40, [](int t, int j) { return t == j ? 18.0 : 0.01 * j; });
  const auto replays = replay_every_budget(unit, Spec("window"), Mode::stream);
  const Curve curve = curve_of(unit, Spec("window"), {.error_budgets = every_budget(unit)});
  for (const int budget : {1, 20, 38}) {
    const double expected = *replays[budget - 1].result.output_error_mean;
    CHECK((expected > 0 && expected < 1e-5));
    CHECK(close(curve.output_error.at(budget).mean, expected, 1e-5));
  }
}

TEST_CASE("policies of the same call do not change a curve", "[curve]") {
  const Unit unit = random_unit({.tokens = 80}, 9);
  const auto policies = policies_to_try();
  const CurveOptions options{.seed = 1, .error_budgets = {4, 40}};
  const auto together = curves_of(unit, policies, options, *make_cpu_backend());
  for (std::size_t i = 0; i < policies.size(); ++i) {
    const Curve alone = curve_of(unit, policies[i], options);
    CHECK(alone.attention_loss == together[i].attention_loss);
    CHECK(alone.output_error.at(4).mean == together[i].output_error.at(4).mean);
  }
}

TEST_CASE("no curve lies above that of the optimum", "[curve]") {
  const Unit unit = random_unit({.tokens = 80, .group = 2}, 11);
  const Curve optimal = curve_of(unit, Spec("optimal"), {});
  for (const Spec& policy : policies_to_try()) {
    const Curve curve = curve_of(unit, policy, {});
    for (std::size_t i = 0; i < curve.attention_loss.size(); ++i) {
      CAPTURE(policy.text(), i);
      REQUIRE(curve.attention_loss[i] >= optimal.attention_loss[i] - 1e-6);
    }
  }
}

TEST_CASE("every policy is offered in a form that has a curve, or refused with those", "[curve]") {
  std::size_t refused = 0;
  for (const PolicyInfo& policy : policies()) {
    const Spec spec(policy);
    if (!policy.nests_with.empty()) {
      CHECK_FALSE(spec.nests());
      CHECK(Spec(policy.name + ':' + policy.nests_with).nests());
    }
    if (spec.nests() || spec.plans_every_budget()) continue;
    ++refused;
    CHECK_THROWS_AS(check_has_curve(spec), UsageError);
    CHECK_THROWS_WITH(check_has_curve(spec),
                      Contains(spec.text()) && Contains("window") && Contains("lru:score=full"));
  }
  CHECK(refused > 5);
  CHECK(policies_with_curves().size() >= 9);
  for (const char* changed : {"window+protect", "knorm+quant", "sink@pyramid", "optimal+quant",
                              "sink:positions=slot", "tova:scope=layer", "optimal:recent=0.5"}) {
    CAPTURE(changed);
    CHECK_THROWS_AS(check_has_curve(Spec(changed)), UsageError);
  }
}

TEST_CASE("an interrupted curve ends", "[curve]") {
  const std::atomic<bool> interrupted = true;
  const Unit unit = random_unit({.tokens = 20}, 1);
  CHECK_THROWS_AS(curve_of(unit, Spec("window"), {.interrupted = &interrupted}), Interrupted);
  CHECK_THROWS_AS(curve_of(unit, Spec("optimal"), {.interrupted = &interrupted}), Interrupted);
}

}  // namespace kvsim::curve_test
