#include <catch2/catch.hpp>
#include <cmath>

#include "sim/replay/replay_checks.h"
#include "tests/support/compare.h"
#include "tests/support/coupled_reference.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "tests/support/units.h"

namespace kvsim::coupled_replay_test {

using namespace test_support;

std::vector<Outcome> replay_all(std::span<const Unit> units, const std::string& spec,
                                const std::vector<int>& budgets, Mode mode = Mode::stream) {
  const ReplayOptions options{.protocol = {.mode = mode}, .seed = 3, .trajectories = true};
  return replay_together(units, {{Spec(spec), budgets.front(), budgets}}, options,
                         *make_cpu_backend())
      .front();
}

void check(const std::vector<Unit>& units, const std::string& spec, const std::vector<int>& budgets,
           Mode mode = Mode::stream) {
  CAPTURE(spec, budgets, Protocol{.mode = mode}.name());
  const std::vector<Outcome> outcomes = replay_all(units, spec, budgets, mode);
  REQUIRE(outcomes.size() == units.size());
  const Coupling coupling = spec == "spatten" ? Coupling::cascade : Coupling::layer;
  const CoupledReference expected(units, budgets, mode, coupling, outcomes);
  int room = units.front().num_tokens();
  for (std::size_t i = 0; i < units.size(); ++i) {
    CAPTURE(units[i].name.layer, units[i].name.kv_head);
    CHECK(expected.records[i].differences(outcomes[i]) == "");
    // In cascade no layer holds more than an earlier one.
    room = coupling == Coupling::cascade ? std::min(room, budgets[i]) : budgets[i];
    CHECK(outcomes[i].result.peak_tokens == room);
    CHECK(outcomes[i].result.cache_bytes == room * (4 + 3) * 4);
    CHECK(outcomes[i].result.bound_violations == 0);
  }
  CHECK(expected.followed <= 4);
}

/// Four layers of two KV heads.
std::vector<Unit> deep_units(const UnitShape& shape, std::uint64_t seed) {
  std::vector<Unit> units = random_units(shape, seed);
  for (Unit& unit : random_units(shape, seed + 1)) {
    unit.name.layer += 2;
    units.push_back(std::move(unit));
  }
  return units;
}

const UnitShape kShape{.tokens = 65, .value_dim = 3, .group = 2, .prompt_length = 30};

TEST_CASE("tova decides by the mean over a layer's heads", "[coupled]") {
  UnitShape shape = kShape;
  if (GENERATE(false, true)) shape.sink_logit = 1.F;
  std::vector<Unit> units = random_units(shape, 91);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  switch (GENERATE(0, 1, 2)) {
    case 1:
      for (Unit& unit : units) unit.sliding_window = 20;
      break;
    case 2:  // of one layer
      units[0].attention_chunk = units[1].attention_chunk = 24;
      break;
    default:
      break;
  }
  for (const int budget : {1, 2, 9, 31, 64, 65}) {
    check(units, "tova:scope=layer", std::vector<int>(4, budget), mode);
  }
  check(units, "tova:scope=layer", {20, 20, 5, 5}, mode);
}

TEST_CASE("the heads of a layer keep the same tokens, and layers do not meet", "[coupled]") {
  const std::vector<Unit> units = random_units(kShape, 92);
  const std::vector<Outcome> all = replay_all(units, "tova:scope=layer", {9, 9, 9, 9});
  const auto left = [&](std::size_t i) { return all[i].trajectory.evicted_after; };
  CHECK(left(0) == left(1));
  CHECK(left(2) == left(3));
  CHECK(left(0) != left(2));
  const auto last = std::span(units).last(2);
  const std::vector<Outcome> alone = replay_all(last, "tova:scope=layer", {9, 9});
  CHECK(identical(alone[0].result, all[2].result));
  CHECK(identical(alone[1].result, all[3].result));
}

TEST_CASE("replayed together, heads that decide for themselves stay alone", "[coupled]") {
  const std::vector<Unit> units = random_units(kShape, 93);
  const std::vector<int> budgets = {3, 9, 20, 65};
  for (const std::string spec : {"tova", "random", "h2o", "subgen", "window+quant"}) {
    CAPTURE(spec);
    const std::vector<Outcome> all = replay_all(units, spec, budgets);
    for (std::size_t i = 0; i < units.size(); ++i) {
      const std::vector<Outcome> alone = replay_all({&units[i], 1}, spec, {budgets[i]});
      CHECK(identical(alone.front().result, all[i].result));
    }
  }
}

TEST_CASE("spatten sums attention over layers and prunes in cascade", "[coupled]") {
  UnitShape shape = kShape;
  if (GENERATE(false, true)) shape.sink_logit = 1.F;
  const std::vector<Unit> units = deep_units(shape, 94);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  for (const int budget : {1, 2, 9, 29, 30, 31, 64, 65}) {
    check(units, "spatten", std::vector<int>(8, budget), mode);
  }
  check(units, "spatten", {20, 20, 12, 12, 7, 7, 3, 3}, mode);
  check(units, "spatten", {3, 3, 7, 7, 12, 12, 20, 20}, mode);
  check(units, "spatten", {9, 9, 65, 65, 4, 4, 9, 9}, mode);
}

TEST_CASE("a layer that loses its newest token in cascade loses no other for it", "[coupled]") {
  // Two layers of one head. Token 2 leaves layer 0; in layer 1 all attention falls on it.
  const float attention[2][3][3] = {{{1}, {0.9F, 0.1F}, {0.8F, 0.15F, 0.05F}},
                                    {{1}, {0.9F, 0.1F}, {0.01F, 0.01F, 0.98F}}};
  std::vector<Unit> units;
  for (const auto& layer : attention) {
    units.push_back(unit_of_logits(3, [&](int t, int j) { return std::log(layer[t][j]); }));
    units.back().name.layer = static_cast<int>(units.size()) - 1;
  }
  const std::vector<Outcome> outcomes = replay_all(units, "spatten", {2, 2});
  CHECK(outcomes[0].trajectory.evicted_after == Evictions{3, 3, 2});
  CHECK(outcomes[1].trajectory.evicted_after == Evictions{3, 3, 2});
  CHECK(outcomes[1].result.attention_recall == Approx(1));
}

TEST_CASE("with one head spatten accumulates its attention", "[coupled]") {
  const Unit unit = random_unit(kShape, 95);
  const ReferenceUnit reference(unit);
  for (const int budget : {1, 9, 31}) {
    const Outcome outcome = replay_all({&unit, 1}, "spatten", {budget}).front();
    const ReferenceOutcome expected =
        reference_replay(reference, {.policy = "h2o", .budget = budget, .score = "sum"},
                         outcome.trajectory.evicted_after);
    CHECK(outcome.trajectory.evicted_after == expected.outcome.trajectory.evicted_after);
    CHECK(differences(outcome.result, expected.outcome.result, 1e-5) == "");
    CHECK(expected.followed <= 2);
  }
}

TEST_CASE("a row of a coupled policy does not depend on the selection", "[coupled]") {
  const traces_test::TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest everything =
      request(folder / "t.h5", "tova:scope=layer;spatten;spatten@pyramid", {"3", "40%"});
  everything.protocol.mode = GENERATE(Mode::stream, Mode::prefill);
  const std::vector<Result> all = rows_of(everything);
  CHECK(all.size() == kUnits * 3 * 2);
  for (const int layer : {0, 1}) {
    SweepRequest part = everything;
    part.selection = {{"a"}, {layer}, {1}};
    const std::vector<Result> rows = rows_of(part);
    CHECK(rows.size() == 3 * 2);
    for (const Result& row : rows) {
      CAPTURE(row.policy, row.budget, row.layer);
      CHECK(std::count_if(all.begin(), all.end(),
                          [&](const Result& other) { return identical(row, other); }) == 1);
    }
  }
}

}  // namespace kvsim::coupled_replay_test
