#include "sim/replay/score_replay.h"

#include <catch2/catch.hpp>

#include "policies/registry/registry.h"
#include "sim/kernels/attention_kernels.h"
#include "sim/replay/policy_replay.h"
#include "tests/support/compare.h"
#include "tests/support/units.h"
#include "tests/support/variants.h"

namespace kvsim::score_replay_test {

using namespace test_support;

// Both replays of one configuration, each with its own ReplayedUnit, so that they share nothing.
template <class Replay>
Outcome replay_by(const Unit& unit, const Configuration& configuration,
                  const ReplayOptions& options) {
  const auto backend = make_cpu_backend();
  std::vector<std::unique_ptr<ReplayedUnit>> units;
  units.push_back(std::make_unique<ReplayedUnit>(unit, *backend, options.protocol));
  const auto replay = [&] {
    if constexpr (std::is_same_v<Replay, ScoreReplay>) {
      return std::make_unique<ScoreReplay>(configuration, *units.front(), options);
    } else {
      return std::make_unique<PolicyReplay>(configuration, units, options);
    }
  }();
  for (int step = 0; step < unit.num_tokens(); step += kBlockSteps) {
    units.front()->compute(step, std::min(kBlockSteps, unit.num_tokens() - step));
    replay->advance();
    units.front()->compute_outputs();
    replay->measure();
  }
  return std::move(replay->finish().front());
}

std::vector<Spec> policies_by_rule(int budget) {
  std::vector<Spec> specs;
  for (const Variant& variant : all_variants()) {
    if (variant.spec.is_estimator() || variant.spec.is_oracle()) continue;
    if (ScoreReplay::can_replay(variant.spec.rules({.budget = budget}))) {
      specs.push_back(variant.spec);
    }
  }
  return specs;
}

void check_equal(const Unit& unit, const Protocol& protocol, const std::vector<int>& budgets) {
  const ReplayOptions options{.protocol = protocol, .seed = 3, .trajectories = true};
  for (const int budget : budgets) {
    for (const Spec& spec : policies_by_rule(budget)) {
      INFO(spec.text() << " at " << budget << " of " << unit.num_tokens());
      const Outcome fast = replay_by<ScoreReplay>(unit, {spec, budget}, options);
      const Outcome plain = replay_by<PolicyReplay>(unit, {spec, budget}, options);
      CHECK(fast.trajectory.evicted_after == plain.trajectory.evicted_after);
      CHECK(differences(fast.result, plain.result, 1e-5) == "");
      CHECK((fast.trajectory.attention_recall - plain.trajectory.attention_recall).isZero(1e-6F));
      CHECK((fast.trajectory.output_error - plain.trajectory.output_error).isZero(1e-5F));
    }
  }
}

void check_equal(const Unit& unit, Mode mode,
                 const std::vector<int>& budgets = {1, 2, 7, 40, 90, 200}) {
  check_equal(unit, {.mode = mode}, budgets);
}

TEST_CASE("the registry has policies by rule") {
  CHECK(policies_by_rule(8).size() >= 12);
  CHECK(ScoreReplay::can_replay(Spec("h2o").rules({.budget = 8})));
  CHECK_FALSE(ScoreReplay::can_replay(Spec("h2o:overlap=yes").rules({.budget = 8})));
  CHECK_FALSE(ScoreReplay::can_replay(Spec("tova:scope=layer").rules({.budget = 8})));
  CHECK_FALSE(ScoreReplay::can_replay(Spec("scissorhands").rules({.budget = 8})));
}

TEST_CASE("the fast replay and the plain one evict and measure the same") {
  const int tokens = GENERATE(1, 33, 131);
  const int group = GENERATE(1, 3);
  const int dim = GENERATE(1, 24);
  check_equal(random_unit({.tokens = tokens, .head_dim = dim, .value_dim = dim, .group = group},
                          tokens + group + dim),
              Mode::stream);
}

TEST_CASE("the fast replay and the plain one evict the same pages") {
  const Unit unit = random_unit({.tokens = 150, .group = 2, .prompt_length = 45}, 9);
  const int interval = GENERATE(1, 7, 40);
  for (const Mode mode : {Mode::stream, Mode::prefill}) {
    check_equal(unit, {.mode = mode, .eviction_interval = interval, .paging = {.size = 8}},
                {16, 40, 96});
  }
}

TEST_CASE("the fast replay and the plain one agree where a layer has a window or a soft cap") {
  Unit unit = random_unit({.tokens = 140, .group = 2, .spread = 3}, 8);
  unit.sliding_window = GENERATE(1, 30);
  if (GENERATE(false, true)) unit.logit_softcap = 2.0F;
  check_equal(unit, Mode::stream);
}

TEST_CASE("the fast replay and the plain one agree where sinks take attention or chunks hide it") {
  UnitShape shape{.tokens = 140, .group = 2, .spread = 3};
  shape.sink_logit = GENERATE(-3.F, 3.F, 15.F);
  if (GENERATE(false, true)) shape.attention_chunk = 45;
  check_equal(random_unit(shape, 9), Mode::stream);
}

TEST_CASE("the fast replay and the plain one agree after a prompt") {
  const int prompt = GENERATE(1, 64, 70);
  check_equal(random_unit({.tokens = 120, .group = 2, .prompt_length = prompt}, prompt),
              Mode::prefill);
}

TEST_CASE("the fast replay and the plain one agree where gaps come and go in long caches") {
  check_equal(random_unit({.tokens = 500, .spread = 2.5}, 77), Mode::stream, {65, 150, 333});
}

TEST_CASE("the fast replay and the plain one agree where most scores tie") {
  check_equal(uniform_unit({.tokens = 300}), Mode::stream, {70, 200});
}

TEST_CASE("the fast replay and the plain one agree where what is kept has hardly any weight") {
  // Nearly all attention of each step is on token 0 or 1, which small budgets do not keep.
  const Unit unit = unit_of_logits(
      100, [](int t, int j) { return j == t % 2 ? 0.0 : -20.0 - 0.37 * ((t * 7 + j * 3) % 11); });
  check_equal(unit, Mode::stream);
}

}  // namespace kvsim::score_replay_test
