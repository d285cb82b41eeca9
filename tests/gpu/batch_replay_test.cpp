#include "gpu/batch_replay.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "policies/registry/registry.h"
#include "tests/gpu/devices.h"
#include "tests/gpu/host_device.h"
#include "tests/support/compare.h"
#include "tests/support/nightly.h"
#include "tests/support/units.h"
#include "tests/support/variants.h"
#include "traces/synth/random_stream.h"
#include "traces/trace.h"

namespace kvsim::gpu_test::batch_replay_test {

using test_support::random_unit;
using test_support::uniform_unit;
using test_support::unit_of_logits;

// Between two keys, and in one dimension, all cosines are equal: rounding decides which key leaves.
bool is_decided_by_rounding(const Rules& rules, const Unit& unit, int budget) {
  const bool is_cosine = rules.score->kind == ScoreRule::Kind::key_difference;
  return is_cosine && (budget == 1 || unit.key.cols() == 1);
}

std::vector<Configuration> by_rule(const Unit& unit, const std::vector<int>& budgets) {
  std::vector<Configuration> configurations;
  for (const test_support::Variant& variant : test_support::all_variants()) {
    if (test_support::is_watched() && !variant.param.empty()) continue;  // the defaults alone
    if (variant.spec.is_estimator() || variant.spec.is_oracle()) continue;
    for (const int budget : budgets) {
      const Rules rules = variant.spec.rules({.budget = budget});
      if (!gpu::can_replay(rules, {}) || is_decided_by_rounding(rules, unit, budget)) continue;
      configurations.push_back({variant.spec, budget});
    }
  }
  return configurations;
}

/// The first step after which one of two replays has evicted a token that the other has not.
std::int32_t first_difference(const std::vector<std::int32_t>& a,
                              const std::vector<std::int32_t>& b) {
  std::int32_t first = std::numeric_limits<std::int32_t>::max();
  for (std::size_t j = 0; j < a.size(); ++j) {
    if (a[j] != b[j]) first = std::min({first, a[j], b[j]});
  }
  return first;
}

/// Whether two scores were closer than rounding where a replay leaves the CPU's: then the CPU's own
/// evicts otherwise by then, for some change of the vectors by a few parts in a million.
bool rounding_decides(const Unit& unit, const Configuration& configuration,
                      const ReplayOptions& options, const Trajectory& mine,
                      const Trajectory& theirs) {
  const std::int32_t step = first_difference(mine.evicted_after, theirs.evicted_after);
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    RandomStream random(seed, {});
    const auto nudged = [&](float x) {
      return x * static_cast<float>(1 + 4e-6 * (2 * random.uniform() - 1));
    };
    Unit other = unit;
    other.key = unit.key.unaryExpr(nudged);
    for (auto& query : other.query) query = Matrix(query.unaryExpr(nudged));
    const auto found = replay(other, {configuration}, options, *make_cpu_backend());
    const auto& evicted_after = found.front().trajectory.evicted_after;
    if (first_difference(evicted_after, theirs.evicted_after) <= step) return true;
  }
  return false;
}

// Tokens leave in the same order and what is measured agrees, replay by replay; but for a few in
// which rounding decides which token leaves.
void check_outcomes(const Unit& unit, const std::vector<Configuration>& configurations,
                    const ReplayOptions& options, const std::vector<Outcome>& tested) {
  const auto expected = replay(unit, configurations, options, *make_cpu_backend());
  REQUIRE(tested.size() == configurations.size());
  std::size_t num_ties = 0;
  for (std::size_t i = 0; i < configurations.size(); ++i) {
    INFO(configurations[i].policy.text() << " at " << configurations[i].budget);
    const Trajectory& mine = tested[i].trajectory;
    const Trajectory& theirs = expected[i].trajectory;
    if (mine.evicted_after != theirs.evicted_after) {
      CHECK(rounding_decides(unit, configurations[i], options, mine, theirs));
      ++num_ties;
      continue;
    }
    CHECK(test_support::differences(tested[i].result, expected[i].result, 1e-4) == "");
    CHECK((mine.attention_recall - theirs.attention_recall).isZero(1e-5F));
    CHECK((mine.output_error - theirs.output_error).isZero(1e-5F));
  }
  CHECK(num_ties <= std::max<std::size_t>(1, configurations.size() / 50));
}

void check_unit(const Unit& unit, Mode mode, const std::vector<Configuration>& configurations,
                int eviction_interval = 1) {
  const ReplayOptions options{.protocol = {.mode = mode, .eviction_interval = eviction_interval},
                              .seed = 3,
                              .trajectories = true};
  const UnitReplays replays{&unit, configurations};
  for (const TestedDevice& device : tested_devices()) {
    CAPTURE(device.name, unit.num_tokens());
    const auto tested = gpu::replay_on(*device.make(), {&replays, 1}, options);
    REQUIRE(tested.size() == 1);
    check_outcomes(unit, configurations, options, tested.front());
  }
}

void check_unit(const Unit& unit, Mode mode, const std::vector<int>& budgets,
                int eviction_interval = 1) {
  check_unit(unit, mode, by_rule(unit, budgets), eviction_interval);
}

TEST_CASE("device: replays by rule are the CPU's") {
  const int tokens = GENERATE(1, 130);
  const int group = GENERATE(1, 3);
  const int dim = GENERATE(1, 24);
  check_unit(random_unit({.tokens = tokens, .head_dim = dim, .value_dim = dim, .group = group},
                         tokens + group + dim),
             Mode::stream, {1, 7, 40, 200});
}

TEST_CASE("device: replays agree where a layer has a window or a soft cap") {
  Unit unit = random_unit({.tokens = 140, .group = 2, .spread = 3}, 8);
  unit.sliding_window = GENERATE(1, 30);
  if (GENERATE(false, true)) unit.logit_softcap = 2.0F;
  check_unit(unit, Mode::stream, {3, 50});
}

TEST_CASE("device: replays agree where sinks take attention or chunks hide it") {
  test_support::UnitShape shape{.tokens = 140, .group = 2, .spread = 3};
  shape.sink_logit = GENERATE(-3.F, 3.F, 20.F);
  if (GENERATE(false, true)) shape.attention_chunk = 45;
  check_unit(random_unit(shape, 12), Mode::stream, {3, 50});
}

TEST_CASE("device: what is kept attends next to a sink where nearly all attention has left") {
  const Unit random = random_unit({.tokens = 100, .head_dim = 100}, 5);
  const auto logit = [&](int t, int j) { return j == t % 2 ? 0.0 : -20.0 - random.key(t, j); };
  Unit unit = unit_of_logits(100, logit);
  unit.sink_logit = {GENERATE(-22.F, -15.F)};
  check_unit(unit, Mode::stream, {1, 7, 40});
}

TEST_CASE("device: replays agree after a prompt") {
  const int prompt = GENERATE(1, 64, 70);
  check_unit(random_unit({.tokens = 120, .group = 2, .prompt_length = prompt}, prompt),
             Mode::prefill, {1, 30, 100});
}

TEST_CASE("device: replays that share a prompt of several blocks agree") {
  const int prompt = GENERATE(128, 150);
  check_unit(random_unit({.tokens = 200, .group = 2, .prompt_length = prompt}, prompt),
             Mode::prefill, {1, 30, 140, 190}, GENERATE(1, 70));
}

TEST_CASE("device: caches of very different sizes are replayed side by side") {
  const Unit unit = random_unit({.tokens = 1000, .group = 5, .prompt_length = 600}, 4);
  std::vector<Configuration> configurations;
  for (const char* policy : {"h2o", "window", "snapkv"}) {
    for (const int budget : {900, 20, 430}) configurations.push_back({Spec(policy), budget});
  }
  check_unit(unit, GENERATE(Mode::stream, Mode::prefill), configurations);
}

TEST_CASE("device: replays agree where caches evict at intervals or only the prompt is cut") {
  const Unit unit = random_unit({.tokens = 150, .group = 2, .prompt_length = 70}, 9);
  check_unit(unit, Mode::stream, {1, 30}, 9);
  check_unit(unit, Mode::prefill, {1, 30, 69, 100}, GENERATE(9, 80, kNeverEvict));
}

TEST_CASE("device: replays agree where most scores tie") {
  check_unit(uniform_unit({.tokens = 300}), Mode::stream, {70, 200});
}

TEST_CASE("device: evictions that equal scores decide are the CPU's") {
  const Unit unit = uniform_unit({.tokens = 150, .prompt_length = 70});
  for (const int interval : {1, 9, kNeverEvict}) {
    const ReplayOptions options{.protocol = {.mode = Mode::prefill, .eviction_interval = interval}};
    const std::vector<Configuration> configurations{
        {Spec("window"), 30}, {Spec("lru"), 30}, {Spec("lfu"), 30}, {Spec("scissorhands"), 30}};
    const auto expected = replay(unit, configurations, options, *make_cpu_backend());
    const UnitReplays replays{&unit, configurations};
    for (const TestedDevice& device : tested_devices()) {
      const auto tested = gpu::replay_on(*device.make(), {&replays, 1}, options);
      for (std::size_t i = 0; i < configurations.size(); ++i) {
        CAPTURE(device.name, interval, configurations[i].policy.text());
        CHECK(tested.front()[i].result.ties == expected[i].result.ties);
        CHECK(tested.front()[i].result.kv_footprint == expected[i].result.kv_footprint);
      }
      CHECK(expected.back().result.ties > 0);
    }
  }
}

TEST_CASE("device: replays agree where what is kept has hardly any weight") {
  // Of each step nearly all attention is on token 0 or 1, which short budgets do not hold.
  const Unit random = random_unit({.tokens = 100, .head_dim = 100}, 5);
  const auto logit = [&](int t, int j) { return j == t % 2 ? 0.0 : -20.0 - random.key(t, j); };
  check_unit(unit_of_logits(100, logit), Mode::stream, {1, 7, 40});
}

TEST_CASE("device: replays of recorded attention agree") {
  const Trace trace(KVSIM_SOURCE_DIR "/traces/sample/tiny-llama.h5");
  const Unit unit = trace.read_unit({"held-out-text", 1, GENERATE(0, 2)},
                                    {.gradients = false, .projection = false});
  std::vector<Configuration> configurations;
  for (const Spec& policy : parse_specs("window;random;h2o;h2o:score=full;h2o:keep=light;tova;lru;"
                                        "lfu;scissorhands;knorm;keydiff;"
                                        "snapkv;strided;fixed;topk")) {
    for (const int budget : {unit.num_tokens() / 20, 2 * unit.num_tokens() / 5}) {
      configurations.push_back({policy, budget});
    }
  }
  check_unit(unit, Mode::stream, configurations);
}

// Three shapes, one of them twice, with different policies for each unit.
struct ManyUnits {
  std::vector<Unit> units = {random_unit({.tokens = 90}, 1), random_unit({.tokens = 130}, 2),
                             random_unit({.tokens = 90}, 3),
                             random_unit({.tokens = 90, .group = 2}, 4)};
  std::vector<std::vector<Configuration>> configurations = {
      {{Spec("h2o"), 10}, {Spec("tova"), 30}, {Spec("window"), 20}},
      {{Spec("lru"), 10}},
      {{Spec("window"), 15}, {Spec("knorm"), 15}, {Spec("lfu"), 80}, {Spec("h2o"), 15}},
      {{Spec("sink+protect:first=3,last=2"), 10}, {Spec("topk"), 30}}};

  std::vector<UnitReplays> replays() const {
    std::vector<UnitReplays> all;
    for (std::size_t i = 0; i < units.size(); ++i) all.push_back({&units[i], configurations[i]});
    return all;
  }

  void check(const std::vector<std::vector<Outcome>>& tested, const ReplayOptions& options) const {
    REQUIRE(tested.size() == units.size());
    for (std::size_t i = 0; i < units.size(); ++i) {
      CAPTURE(i);
      check_outcomes(units[i], configurations[i], options, tested[i]);
    }
  }
};

TEST_CASE("device: units of several shapes come back in their places") {
  const ManyUnits many;
  const ReplayOptions options{.trajectories = true};
  for (const TestedDevice& device : tested_devices()) {
    CAPTURE(device.name);
    many.check(gpu::replay_on(*device.make(), many.replays(), options), options);
  }
}

TEST_CASE("device: without room for all, units are replayed in parts") {
  const ManyUnits many;
  const ReplayOptions options{.trajectories = true};
  std::size_t bytes = 1 << 10;
  const auto has_room = [&] {
    HostDevice device(bytes);
    try {
      for (const UnitReplays& of_unit : many.replays()) {
        const UnitReplays single{of_unit.unit, of_unit.configurations.first(1)};
        gpu::replay_on(device, {&single, 1}, options);
      }
      return true;
    } catch (const gpu::OutOfDeviceMemory&) {
      return false;
    }
  };
  CHECK_FALSE(has_room());
  while (!has_room()) bytes += bytes / 4;
  HostDevice small(bytes);
  many.check(gpu::replay_on(small, many.replays(), options), options);
  CHECK(small.num_allocations() > 3);  // shapes
}

TEST_CASE("device: caches too large for the chip are replayed outside it") {
  const ManyUnits many;
  const ReplayOptions options{.trajectories = true};
  HostDevice no_chip(std::size_t{1} << 40, 0);
  many.check(gpu::replay_on(no_chip, many.replays(), options), options);
}

TEST_CASE("device: errors are taken at the steps asked for") {
  const ReplayOptions options{.protocol = {.error_stride = 7}, .trajectories = true};
  const ManyUnits many;
  HostDevice device;
  const auto tested = gpu::replay_on(device, many.replays(), options);
  const auto expected = replay(many.units[0], many.configurations[0], options, *make_cpu_backend());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(test_support::differences(tested[0][i].result, expected[i].result, 1e-4) == "");
  }
}

TEST_CASE("device: totals do not depend on whether trajectories are asked for") {
  const ManyUnits many;
  HostDevice device;
  const auto without = gpu::replay_on(device, many.replays(), {});
  const auto with = gpu::replay_on(device, many.replays(), {.trajectories = true});
  for (std::size_t i = 0; i < with.size(); ++i) {
    for (std::size_t c = 0; c < with[i].size(); ++c) {
      CHECK(test_support::identical(without[i][c].result, with[i][c].result));
      CHECK(without[i][c].trajectory.evicted_after.empty());
    }
  }
}

TEST_CASE("device: an interrupted replay ends") {
  const ManyUnits many;
  const std::atomic<bool> interrupted = true;
  HostDevice device;
  CHECK_THROWS_AS(gpu::replay_on(device, many.replays(), {.interrupted = &interrupted}),
                  Interrupted);
}

}  // namespace kvsim::gpu_test::batch_replay_test
