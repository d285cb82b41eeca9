#include <H5Cpp.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <utility>

#include "policies/registry/registry.h"
#include "sim/base/errors.h"
#include "sim/kernels/attention_kernels.h"
#include "sim/replay/replay_checks.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/nightly.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "tests/support/unit_parts.h"
#include "tests/support/units.h"
#include "tests/support/variants.h"

namespace kvsim::no_reference_test {

using namespace test_support;

constexpr Protocol kNoReference{.reference = Reference::none};

bool can_do_without(const Spec& policy) {
  try {
    check_protocol(options_for(policy, {.protocol = kNoReference}).protocol, policy);
  } catch (const UsageError&) {
    return false;
  }
  return true;
}

std::vector<Configuration> all_that_can_do_without(const std::vector<int>& budgets) {
  std::vector<Configuration> configurations;
  for (const Variant& variant : all_variants()) {
    if (!can_do_without(variant.spec)) continue;
    for (const int budget : budgets) configurations.push_back({variant.spec, budget});
  }
  return configurations;
}

using Outcomes = std::vector<std::vector<Outcome>>;

void check_same(const Outcomes& without, const Outcomes& with_reference,
                const std::vector<Configuration>& configurations) {
  for (std::size_t i = 0; i < configurations.size(); ++i) {
    CAPTURE(configurations[i].policy.text(), configurations[i].budget);
    for (std::size_t unit = 0; unit < with_reference[i].size(); ++unit) {
      const Outcome& found = without[i][unit];
      const Outcome& expected = with_reference[i][unit];
      CHECK(found.trajectory.evicted_after == expected.trajectory.evicted_after);
      CHECK(found.result.steps == expected.result.steps);
      CHECK(found.result.evictions == expected.result.evictions);
      CHECK(found.result.peak_tokens == expected.result.peak_tokens);
      CHECK(found.result.kv_footprint == expected.result.kv_footprint);
      CHECK(found.result.cache_bytes == expected.result.cache_bytes);
    }
  }
}

// Without a reference once with the units in memory, once with units that are read part by part.
void check_evictions(const std::vector<Unit>& units, ReplayOptions options,
                     const std::vector<Configuration>& configurations) {
  const auto with_reference = replay_together(units, configurations, options, *make_cpu_backend());
  options.protocol.reference = Reference::none;
  std::vector<Unit> in_parts;
  for (const Unit& unit : units) in_parts.push_back(read_in_parts(unit, 2 * kBlockSteps));
  for (const std::vector<Unit>* replayed : {&units, &std::as_const(in_parts)}) {
    CAPTURE(replayed == &in_parts);
    check_same(replay_together(*replayed, configurations, options, *make_cpu_backend()),
               with_reference, configurations);
  }
}

// A unit without a prompt leaves out the policies that score it alone.
void check_evictions(const std::vector<Unit>& units, Mode mode) {
  const ReplayOptions options{.protocol = {.mode = mode}, .seed = 5, .trajectories = true};
  const std::vector<int> budgets = sample_of<std::vector<int>>({2, 40, 1000}, {1, 2, 9, 40, 1000});
  for (const ReplayGroup& group : by_protocol(options, all_that_can_do_without(budgets))) {
    const bool needs_prompt = group.options.protocol.mode == Mode::prefill;
    if (needs_prompt && units.front().prompt_length == 0) continue;
    check_evictions(units, group.options, group.configurations);
  }
}

TEST_CASE("without a reference every policy evicts as with it") {
  const int tokens = GENERATE(1, 70, 131);
  const int group = GENERATE(1, 3);
  const int dim = GENERATE(1, 24);
  if (!is_nightly() && (group == 1) == (dim == 1)) return;
  check_evictions(
      random_units({.tokens = tokens, .head_dim = dim, .value_dim = dim, .group = group}, 40),
      Mode::stream);
}

TEST_CASE("without a reference policies that count positions by slot evict as with it") {
  Unit unit = random_unit({.tokens = 3000, .head_dim = 8, .value_dim = 2, .group = 2}, 46);
  const std::string style = GENERATE("half", "interleaved");
  unit.rope = Rope{{1, 0.3, 0.01}, style, 1};  // the last two numbers are not rotated
  std::vector<Configuration> configurations;
  for (const char* spec :
       {"sink:positions=slot", "h2o:positions=slot", "h2o:preset=streaming",
        "h2o:positions=slot,recent=0", "h2o:positions=slot+protect:first=2,last=4"}) {
    for (const int budget : {5, 60, 500}) configurations.push_back({Spec(spec), budget});
  }
  check_evictions({unit}, {.trajectories = true}, configurations);
}

TEST_CASE("without a reference every policy evicts as with it where a layer has a window") {
  std::vector<Unit> units = random_units({.tokens = 100, .group = 2, .spread = 3}, 41);
  const int window = GENERATE(1, 30);
  for (Unit& unit : units) unit.sliding_window = window;
  check_evictions(units, Mode::stream);
}

TEST_CASE("without a reference every policy evicts as with it where sinks take attention") {
  UnitShape shape{.tokens = 100, .group = 2, .spread = 3};
  shape.sink_logit = GENERATE(-3.F, 3.F, 30.F);
  if (GENERATE(false, true)) shape.attention_chunk = 35;
  check_evictions(random_units(shape, 46), Mode::stream);
}

TEST_CASE("without a reference every policy evicts as with it where the model selects tokens") {
  UnitShape shape{.tokens = 100, .group = 2, .spread = 3};
  shape.selected = GENERATE(2, 30);
  check_evictions(random_units(shape, 47), Mode::stream);
}

TEST_CASE("without a reference every policy evicts as with it where logits have a soft cap") {
  std::vector<Unit> units = random_units({.tokens = 100, .group = 2, .spread = 3}, 42);
  for (Unit& unit : units) unit.logit_softcap = 2.0F;
  check_evictions(units, Mode::stream);
}

TEST_CASE("without a reference every policy evicts as with it after a prompt") {
  const int prompt = GENERATE(1, 33, 90);
  check_evictions(random_units({.tokens = 120, .group = 2, .prompt_length = prompt}, 43),
                  Mode::prefill);
}

TEST_CASE("without a reference values are read only for a policy that asks for them") {
  const traces_test::TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  {
    const H5::H5File file((folder / "t.h5").string(), H5F_ACC_RDWR);
    traces_test::set_number(file, "/sequences/a/layers/0/value", {0, 3, 0}, NAN);
  }
  SweepRequest wanted = request(folder / "t.h5", "window;h2o", {"6"});
  wanted.selection = {{"a"}, {0}, {0}};
  wanted.protocol = kNoReference;
  CHECK(rows_of(wanted).size() == 2);
  wanted.policies = {Spec("vatp")};
  CHECK_THROWS_WITH(rows_of(wanted), Catch::Contains("/sequences/a/layers/0/value"));
}

TEST_CASE("without a reference a schedule is followed") {
  const Unit unit = random_unit({.tokens = 50}, 44);
  ReplayOptions options{.trajectories = true};
  const Outcome h2o = replay(unit, {{Spec("h2o"), 8}}, options, *make_cpu_backend()).front();
  options.protocol.reference = Reference::none;
  const std::vector<std::int32_t>& schedule = h2o.trajectory.evicted_after;
  const Configuration follow{Spec(find_policy("schedule")), 8, {}, {schedule}};
  CHECK(replay(unit, {follow}, options, *make_cpu_backend()).front().trajectory.evicted_after ==
        schedule);
}

TEST_CASE("without a reference what compares with it is not there, and all else is") {
  const Unit unit = random_unit({.tokens = 50}, 45);
  const ReplayOptions options{.protocol = kNoReference, .trajectories = true};
  const Outcome outcome = replay(unit, {{Spec("tova"), 8}}, options, *make_cpu_backend()).front();
  for (const Column& column : result_columns()) {
    INFO(column.name);
    const bool is_missing = std::holds_alternative<std::monostate>(column.get(outcome.result));
    const bool needs_none =
        column.name == "ties" || column.name == "kv_footprint" || !column.can_be_null();
    CHECK(is_missing != needs_none);
    if (column.is_open_loop) CHECK(is_missing);
  }
  CHECK(outcome.result.steps == 50);
  CHECK(outcome.result.evictions == 42);
  CHECK(outcome.result.peak_tokens == 8);
  CHECK(outcome.result.kv_footprint == 1 + 2 + 3 + 4 + 5 + 6 + 7 + 43 * 8);
  CHECK(outcome.trajectory.attention_recall.size() == 0);
  CHECK(outcome.trajectory.output_error.size() == 0);
}

TEST_CASE("a policy that needs the reference is refused with the reason and a way out") {
  const auto refused = [](const std::string& spec, const std::string& part) {
    CAPTURE(spec);
    CHECK_THROWS_WITH(check_protocol(kNoReference, Spec(spec)),
                      Catch::StartsWith("--reference none cannot replay " + Spec(spec).text()) &&
                          Catch::Contains(part));
    CHECK_NOTHROW(check_protocol({}, Spec(spec)));
  };
  refused("optimal", "plans");
  refused("subgen", "leave it out");
  refused("topk", "all tokens");
  refused("h2o:score=full", "a score other than full");
  refused("h2o+quant", "+quant");
  CHECK(can_do_without(Spec("sink:positions=slot")));
  CHECK(can_do_without(Spec("h2o:preset=streaming")));
  refused("h2o@adaptive", "@pyramid");
  CHECK(can_do_without(Spec("h2o@pyramid")));
  std::set<std::string> names;
  for (const Configuration& configuration : all_that_can_do_without({1})) {
    names.insert(configuration.policy.policy().name);
  }
  CHECK(fmt::format("{}", fmt::join(names, " ")) ==
        "expected-attention fastgen fixed full h2o kcenter keydiff knorm lfu lookback lru obcache "
        "r-kv random reservoir scissorhands sink snapkv spatten strided tova triattention "
        "valuediff vatp window");
}

TEST_CASE("a sweep without a reference needs no values and refuses before any work", "[sweep]") {
  const traces_test::TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const Unit unit = Trace(folder / "t.h5").read_unit({"a", 0, 0}, {.values = false});
  CHECK(unit.num_tokens() > 0);
  CHECK((unit.value.rows() == 0 && unit.value.cols() > 0));
  SweepRequest wanted = request(folder / "t.h5", "h2o", {"5"});
  wanted.protocol = kNoReference;
  for (const Result& row : rows_of(wanted)) {
    CHECK(row.mode == "stream:reference=none");
    CHECK(row.cache_bytes ==
          5 * (unit.key.cols() * unit.key_bytes + unit.value.cols() * unit.value_bytes));
  }
  wanted.policies = parse_specs("h2o;topk");
  CHECK_THROWS_AS(plan_sweep(wanted), UsageError);
}

}  // namespace kvsim::no_reference_test
