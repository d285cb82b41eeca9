#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "sim/replay/replay_checks.h"
#include "tests/support/estimator_reference.h"
#include "tests/support/units.h"

namespace kvsim::estimator_replay_test {

using namespace test_support;

Outcome replay_one(const Unit& unit, const Estimation& estimation) {
  const ReplayOptions options{
      .protocol = {.mode = estimation.mode}, .seed = kEstimationSeed, .trajectories = true};
  return replay(unit, {{Spec(estimation.spec), estimation.budget}}, options, *make_cpu_backend())
      .front();
}

void check(const Unit& unit, const Estimation& estimation) {
  CAPTURE(estimation.spec, estimation.budget, unit.num_tokens(),
          Protocol{.mode = estimation.mode}.name());
  const Outcome outcome = replay_one(unit, estimation);
  const EstimatorReference expected(unit, estimation);
  CHECK(expected.record.differences(outcome) == "");
  CHECK(outcome.result.peak_tokens == expected.peak_tokens);
  CHECK(outcome.result.peak_tokens <= estimation.budget);
  CHECK(outcome.result.bound_mean == std::nullopt);
  CHECK(outcome.result.bound_violations == std::nullopt);
}

const std::vector<int> kBudgets = {1, 2, 3, 5, 9, 20, 140, 3000};

void check_all(const Unit& unit, Mode mode = Mode::stream) {
  for (const int budget : kBudgets) {
    check(unit, {.spec = "subgen", .budget = budget, .mode = mode});
    check(unit, {.spec = "subgen:delta=1,s=0.5,t=1", .budget = budget, .mode = mode});
    for (const auto& [first, newest] : {std::pair{2, 3}, {0, 1}, {1, 0}, {40, 40}}) {
      const std::string protect =
          "+protect:first=" + std::to_string(first) + ",last=" + std::to_string(newest);
      check(unit, {.spec = "subgen:delta=1,t=2" + protect,
                   .budget = budget,
                   .first = first,
                   .newest = newest,
                   .mode = mode});
    }
  }
}

TEST_CASE("an estimator's output is the quotient of its weighted sums", "[estimators]") {
  const UnitShape shape =
      GENERATE(UnitShape{.tokens = 1}, UnitShape{.tokens = 2, .group = 2},
               UnitShape{.tokens = 65, .head_dim = 5, .value_dim = 3, .group = 2},
               UnitShape{.tokens = 130, .head_dim = 16, .value_dim = 1});
  check_all(random_unit(shape, 81));
}

TEST_CASE("an estimator's logits are soft-capped", "[estimators]") {
  Unit unit = random_unit({.tokens = 65, .head_dim = 8, .group = 2, .spread = 6}, 82);
  unit.logit_softcap = 4.F;
  check_all(unit);
}

TEST_CASE("a sliding window hides what an estimator holds", "[estimators]") {
  Unit unit = random_unit({.tokens = 65, .group = 2}, 83);
  unit.sliding_window = GENERATE(1, 12, 30);
  check_all(unit);
}

TEST_CASE("an estimator has no weight for what the model does not select", "[estimators]") {
  UnitShape shape{.tokens = 65, .group = 2};
  shape.selected = GENERATE(8, 40);
  if (GENERATE(false, true)) shape.sink_logit = 1.F;
  check_all(random_unit(shape, 89));
}

TEST_CASE("a sink is a part of an estimator's denominator, and chunks hide its tokens",
          "[estimators]") {
  const float sink = GENERATE(-20.F, 1.F, 25.F);
  UnitShape shape{.tokens = 65, .group = 2, .prompt_length = 30, .sink_logit = sink};
  if (GENERATE(false, true)) shape.attention_chunk = 20;
  check_all(random_unit(shape, 88), GENERATE(Mode::stream, Mode::prefill));
}

TEST_CASE("an estimator takes in a prompt before anything is measured or leaves", "[estimators]") {
  const int prompt = GENERATE(1, 30, 64);
  check_all(random_unit({.tokens = 65, .group = 2, .prompt_length = prompt}, 84), Mode::prefill);
}

TEST_CASE("an estimator draws its samples from quantised tokens", "[estimators]") {
  const Unit unit = random_unit({.tokens = 65, .head_dim = 6, .group = 2, .prompt_length = 30}, 85);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const Quantization stored{.bits = 2, .group = 3};
  const std::string quant = "+quant:bits=2,group=3";
  for (const int budget : kBudgets) {
    check(unit,
          {.spec = "subgen:delta=2,t=1" + quant, .budget = budget, .stored = stored, .mode = mode});
    check(unit, {.spec = "subgen:delta=2,t=1+protect:first=2,last=4" + quant,
                 .budget = budget,
                 .first = 2,
                 .newest = 4,
                 .stored = stored,
                 .mode = mode});
  }
}

TEST_CASE("an entry without a weight does not drown the others", "[estimators]") {
  // Token 0 is the only representative; longer values soon replace it as a sample.
  const float height = GENERATE(20.F, 150.F, 1500.F);
  Unit unit = unit_of_logits(40, [&](int t, int j) {
    return j == 0 ? height : static_cast<float>((3 * t + 5 * j) % 7) / 4;
  });
  unit.value.row(0).setConstant(1e-3F);
  check(unit, {.spec = "subgen:delta=1000,s=1,t=1", .budget = 4});
}

// One cluster with representative token 0, and one sample of it; only token 0 has a value, so it
// stays the sample.
Unit unit_with_one_value() {
  Unit unit = random_unit({.tokens = 64}, 86);
  unit.value.bottomRows(63).setZero();
  unit.key_bytes = 2;
  unit.value_bytes = 4;
  return unit;
}

TEST_CASE("an estimator's bytes are those of its vectors and counters", "[estimators]") {
  const Unit unit = unit_with_one_value();
  const Outcome plain = replay_one(unit, {.spec = "subgen:delta=1000,s=1,t=1", .budget = 4});
  constexpr int kCounters = 8 + 3 * 4;  // mu; two slots, and the size of a cluster
  CHECK(plain.result.peak_tokens == 3);
  CHECK(plain.result.cache_bytes == 2 * (4 * 2) + 1 * (4 * 4) + kCounters);
  // 16 bits in two bytes; per group the minimum and the step.
  const Outcome quantised =
      replay_one(unit, {.spec = "subgen:delta=1000,s=1,t=1+quant:bits=4", .budget = 4});
  CHECK(quantised.result.peak_tokens == 3);
  CHECK(quantised.result.cache_bytes == 2 * (2 + 2 * 2) + 1 * (2 + 2 * 4) + kCounters);
  // Plus the two newest tokens.
  const Outcome recent =
      replay_one(unit, {.spec = "subgen:delta=1000,s=1,t=1+protect:first=0,last=2", .budget = 8});
  CHECK(recent.result.peak_tokens == 3 + 2 * 2);
  CHECK(recent.result.cache_bytes == 4 * (4 * 2) + 3 * (4 * 4) + kCounters);
}

TEST_CASE("without room for a token only the step's own one is seen", "[estimators]") {
  const Unit unit = random_unit({.tokens = 20}, 87);
  const Outcome none = replay_one(unit, {.spec = "subgen", .budget = 1});
  CHECK(none.result.peak_tokens == 0);
  CHECK(none.result.cache_bytes == 0);
  CHECK(none.result.evictions == 20);
  const Outcome window = replay_one(unit, {.spec = "window", .budget = 1});
  CHECK(none.result.attention_recall < window.result.attention_recall);
}

TEST_CASE("a token leaves an estimator when its value does", "[estimators]") {
  const Outcome outcome =
      replay_one(unit_with_one_value(), {.spec = "subgen:delta=1000,s=1,t=1", .budget = 4});
  const Evictions& left = outcome.trajectory.evicted_after;
  CHECK(left[0] == 64);
  for (int j = 1; j < 64; ++j) CHECK(left[static_cast<std::size_t>(j)] == j);
  const Outcome recent =
      replay_one(unit_with_one_value(),
                 {.spec = "subgen:delta=1000,s=1,t=1+protect:first=0,last=2", .budget = 8});
  const Evictions& later = recent.trajectory.evicted_after;
  CHECK(later[0] == 64);
  for (int j = 1; j < 62; ++j) CHECK(later[static_cast<std::size_t>(j)] == j + 1);
  CHECK(later[62] == 64);
  CHECK(later[63] == 64);
}

}  // namespace kvsim::estimator_replay_test
