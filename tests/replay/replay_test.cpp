#include "sim/replay/replay.h"

#include <catch2/catch.hpp>
#include <set>

#include "policies/parameters/errors.h"
#include "sim/replay/replay_checks.h"
#include "tests/support/units.h"

namespace kvsim {
namespace {

using namespace test_support;

TEST_CASE("prefill mode needs a prompt and something after it", "[replay]") {
  CHECK_NOTHROW(check_mode("s", 10, 0, Mode::stream));
  CHECK_NOTHROW(check_mode("s", 10, 10, Mode::stream));
  CHECK_NOTHROW(check_mode("s", 10, 9, Mode::prefill));
  CHECK_THROWS_AS(check_mode("s", 10, 0, Mode::prefill), UsageError);
  CHECK_THROWS_AS(check_mode("s", 10, 10, Mode::prefill), UsageError);
  CHECK_THROWS_WITH(check_mode("text-7", 10, 0, Mode::prefill), Catch::Contains("text-7"));
  const Unit unit = random_unit({.tokens = 10, .prompt_length = 10}, 51);
  CHECK_THROWS_AS(replay(unit, {{Spec("window"), 2}}, {.mode = Mode::prefill}, *make_cpu_backend()),
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
  const ReplayOptions options{.mode = Mode::prefill, .trajectories = true};
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

TEST_CASE("modes have names", "[replay]") {
  CHECK(mode_name(Mode::stream) == "stream");
  CHECK(mode_name(Mode::prefill) == "prefill");
}

}  // namespace
}  // namespace kvsim
