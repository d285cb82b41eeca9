#include "sim/replay/replay.h"

#include <catch2/catch.hpp>
#include <set>

#include "sim/base/errors.h"
#include "sim/replay/replay_checks.h"
#include "tests/support/units.h"
#include "traces/unit_seed.h"

namespace kvsim::replay_test {

using namespace test_support;

TEST_CASE("prefill mode needs a prompt and something after it", "[replay]") {
  CHECK_NOTHROW(check_text({.mode = Mode::stream}, "s", 10, 0));
  CHECK_NOTHROW(check_text({.mode = Mode::stream}, "s", 10, 10));
  CHECK_NOTHROW(check_text({.mode = Mode::prefill}, "s", 10, 9));
  CHECK_THROWS_AS(check_text({.mode = Mode::prefill}, "s", 10, 0), UsageError);
  CHECK_THROWS_AS(check_text({.mode = Mode::prefill}, "s", 10, 10), UsageError);
  CHECK_THROWS_WITH(check_text({.mode = Mode::prefill}, "text-7", 10, 0),
                    Catch::Contains("text-7"));
  const Unit unit = random_unit({.tokens = 10, .prompt_length = 10}, 51);
  CHECK_THROWS_AS(replay(unit, {{Spec("window"), 2}}, {.protocol = {.mode = Mode::prefill}},
                         *make_cpu_backend()),
                  UsageError);
}

TEST_CASE("an interrupted replay ends", "[replay]") {
  const Unit unit = random_unit({.tokens = 10}, 52);
  const std::atomic<bool> interrupted = true;
  CHECK_THROWS_AS(
      replay(unit, {{Spec("window"), 2}}, {.interrupted = &interrupted}, *make_cpu_backend()),
      Interrupted);
}

TEST_CASE("a replay of no configuration has no outcome", "[replay]") {
  const Unit unit = random_unit({.tokens = 10}, 53);
  CHECK(replay(unit, {}, {}, *make_cpu_backend()).empty());
}

TEST_CASE("only the steps after the prompt are measured", "[replay]") {
  const Unit unit = random_unit({.tokens = 30, .group = 2, .prompt_length = 12}, 54);
  const ReplayOptions options{.protocol = {.mode = Mode::prefill}, .trajectories = true};
  const Outcome outcome = replay(unit, {{Spec("window"), 5}}, options, *make_cpu_backend()).front();
  CHECK(outcome.result.steps == 18);
  CHECK(outcome.trajectory.attention_recall.rows() == 2);
  CHECK(outcome.trajectory.attention_recall.cols() == 18);
  CHECK(outcome.trajectory.output_error.cols() == 18);
  CHECK(outcome.trajectory.evicted_after.size() == 30);
  CHECK(outcome.result.evictions == 25);
  CHECK(outcome.result.peak_tokens == 5);
  for (int j = 0; j < 7; ++j) {
    CHECK(outcome.trajectory.evicted_after[static_cast<std::size_t>(j)] == 11);
  }
}

TEST_CASE("with interval never the prompt is cut once and every later token stays", "[replay]") {
  const Unit unit = random_unit({.tokens = 30, .group = 2, .prompt_length = 12}, 54);
  const ReplayOptions options{.protocol = {.mode = Mode::prefill, .eviction_interval = kNeverEvict},
                              .trajectories = true};
  const Outcome outcome = replay(unit, {{Spec("knorm"), 5}}, options, *make_cpu_backend()).front();
  CHECK(outcome.result.evictions == 12 - 5);
  CHECK(outcome.result.peak_tokens == 5 + 18);
  for (int j = 0; j < 30; ++j) {
    const auto left = outcome.trajectory.evicted_after[static_cast<std::size_t>(j)];
    CHECK((left == 11 || left == 30));
  }
}

TEST_CASE("an interval that a policy or a mode rules out is bad usage", "[replay]") {
  CHECK_NOTHROW(check_protocol({.mode = Mode::stream, .eviction_interval = 1}, Spec("subgen")));
  CHECK_NOTHROW(
      check_protocol({.mode = Mode::prefill, .eviction_interval = kNeverEvict}, Spec("lru")));
  CHECK_THROWS_AS(
      check_protocol({.mode = Mode::stream, .eviction_interval = kNeverEvict}, Spec("lru")),
      UsageError);
  CHECK_THROWS_AS(check_protocol({.mode = Mode::stream, .eviction_interval = 2}, Spec("subgen")),
                  UsageError);
}

TEST_CASE("ties are the evictions that equal scores decide", "[replay]") {
  const auto ties = [](const Unit& unit, const char* policy, int budget, const ReplayOptions& how) {
    const Outcome outcome =
        replay(unit, {{Spec(policy), budget}}, how, *make_cpu_backend()).front();
    CHECK(outcome.result.evictions > 0);
    return outcome.result.ties;
  };
  // All tokens are attended to equally, so equal scores decide all 30 - 5 evictions, and all 12 - 5
  // of the cut of the prompt.
  const Unit equal = uniform_unit({.tokens = 30, .group = 2, .prompt_length = 12});
  CHECK(ties(equal, "tova", 5, {}) == 25);
  CHECK(ties(equal, "tova", 5,
             {.protocol = {.mode = Mode::prefill, .eviction_interval = kNeverEvict}}) == 7);
  CHECK(ties(equal, "window", 5, {}) == 0);
  const Unit distinct = random_unit({.tokens = 30, .prompt_length = 12}, 55);
  CHECK(ties(distinct, "tova", 5, {}) == 0);
  // The same by the way of policies without a score rule.
  CHECK(ties(equal, "tova+protect:first=1", 5, {.protocol = {.reference = Reference::none}}) == 25);
}

TEST_CASE("bytes are those of keys and values at the trace's element sizes", "[replay]") {
  Unit unit = random_unit({.tokens = 30, .head_dim = 6, .value_dim = 4}, 55);
  unit.key_bytes = 2;
  unit.value_bytes = 4;
  const Outcome outcome = replay(unit, {{Spec("window"), 5}}, {}, *make_cpu_backend()).front();
  CHECK(outcome.result.cache_bytes == 5 * (6 * 2 + 4 * 4));
}

TEST_CASE("each unit has a seed of its own", "[replay]") {
  const std::set<std::uint64_t> seeds = {unit_seed(0, {"a", 0, 0}), unit_seed(1, {"a", 0, 0}),
                                         unit_seed(0, {"b", 0, 0}), unit_seed(0, {"a", 1, 0}),
                                         unit_seed(0, {"a", 0, 1}), unit_seed(0, {"a", 1, 1}),
                                         unit_seed(0, {"", 0, 0}),  unit_seed(0, {"aa", 0, 0})};
  CHECK(seeds.size() == 8);
  CHECK(unit_seed(5, {"a", 2, 3}) == unit_seed(5, {"a", 2, 3}));
}

TEST_CASE("a policy with logits of its own lets go what the layer's sliding window hides") {
  const std::string spec =
      GENERATE("lookback:window=1,target=now", "obcache:recent=0,queries=newest");
  Unit unit = random_unit({.tokens = 60, .group = 2}, 12);
  unit.sliding_window = 12;
  unit.logit_softcap = 1.5F;
  const Outcome outcome = replay(unit, {{Spec(spec), 20}}, {}, *make_cpu_backend()).front();
  CHECK(outcome.result.evictions == 40);
  CHECK(outcome.result.attention_loss == 0);
}

}  // namespace kvsim::replay_test
