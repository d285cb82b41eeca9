#include <catch2/catch.hpp>

#include "analysis/analyse_unit.h"
#include "oracle/assignment/remaining_sums.h"
#include "sim/attention/future_attention.h"
#include "tests/gpu/devices.h"
#include "tests/support/units.h"

namespace kvsim::gpu_test::summaries_test {

using test_support::random_unit;

void check_summaries(const Unit& unit) {
  const auto analyses = parse_analyses(
      "sparsity;sparsity:threshold=0.2;persistence;persistence:threshold=0.02,split=0.3;"
      "persistence-curve:points=7,threshold=2/t;heavy-hitters");
  const auto expected = analyse_unit(unit, analyses, {}, {}, *make_cpu_backend());
  for (const TestedDevice& device : tested_devices()) {
    CAPTURE(device.name, unit.num_tokens());
    const auto tested = analyse_unit(unit, analyses, {}, {}, *device.backend());
    REQUIRE(tested.size() == expected.size());
    for (std::size_t i = 0; i < tested.size(); ++i) {
      CAPTURE(analyses[i].info->name);
      REQUIRE(tested[i].size() == expected[i].size());
      // The last analysis is none that a device does by itself: it has the device's attention.
      if (!analyses[i].info->runs_on_device) continue;
      for (std::size_t row = 0; row < tested[i].size(); ++row) {
        CHECK(tested[i][row].head == expected[i][row].head);
        CHECK(tested[i][row].values == expected[i][row].values);
      }
    }
  }
}

TEST_CASE("device: sparsity and persistence are the CPU's") {
  const int tokens = GENERATE(1, 63, 150);
  const int group = GENERATE(1, 3);
  Unit unit = random_unit({.tokens = tokens, .group = group, .spread = 2.5}, tokens + group);
  if (GENERATE(false, true)) unit.sliding_window = 20;
  if (GENERATE(false, true)) {
    for (int head = 0; head < group; ++head) unit.sink_logit.push_back(5.F * head - 1);
    unit.attention_chunk = 60;
  }
  check_summaries(unit);
}

TEST_CASE("device: what the future holds is the CPU's") {
  const int tokens = GENERATE(1, 64, 300);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  Unit unit =
      random_unit({.tokens = tokens, .group = 2, .prompt_length = (tokens + 1) / 2}, tokens);
  if (GENERATE(false, true)) unit.sink_logit = {0.F, 4.F};
  const FutureAttention expected(unit, eviction_steps(unit, {.mode = mode}), *make_cpu_backend());
  const RemainingSums expected_sums(expected);
  for (const TestedDevice& device : tested_devices()) {
    CAPTURE(device.name, tokens);
    const FutureAttention tested(unit, eviction_steps(unit, {.mode = mode}), *device.backend());
    REQUIRE_FALSE(tested.remaining().empty());
    const RemainingSums tested_sums(tested);
    for (int step = 0; step < tokens; ++step) {
      for (int token = 0; token <= step; ++token) {
        CHECK(tested.row(step)[token] == Approx(expected.row(step)[token]).epsilon(1e-5));
        CHECK(tested_sums.row(step)[token] ==
              Approx(expected_sums.row(step)[token]).epsilon(1e-5).margin(1e-7));
      }
    }
  }
}

}  // namespace kvsim::gpu_test::summaries_test
