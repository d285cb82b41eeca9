// The result files of shards.

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/stored_sweep.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::shard_results_test {

using namespace test_support;
using traces_test::TemporaryFolder;

/// A sweep into a file, as the verb does it; returns how many rows it made.
std::size_t sweep_into(ResultStore& store, const SweepRequest& wanted) {
  SweepPlan plan = plan_sweep(wanted);
  begin_sweep(plan, store, labels_of(plan, "a command", "cpu"), false);
  const std::size_t made = plan.num_remaining();
  const std::atomic<bool> interrupted = false;
  run_sweep(plan, *make_cpu_backend(), interrupted,
            [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
              store_unit(outcomes, store);
            });
  store.finish_run();
  return made;
}

/// The rows of a table as text, ordered, without the columns that name the run and the file.
std::multiset<std::string> rows_of(const ResultStore& store, const std::string& name) {
  const Table table = store.table(name);
  std::multiset<std::string> rows;
  for (const std::vector<Value>& values : table.rows) {
    std::string text;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (table.columns[i] == "run_id" || table.columns[i] == "trace") continue;
      std::visit(
          [&](const auto& value) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
              text += fmt::format("{} ", value);
            }
          },
          values[i]);
    }
    rows.insert(text);
  }
  return rows;
}

TEST_CASE("shards make the rows of the whole sweep, those of layers with their units") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1, kPrompt, 9);
  SweepRequest wanted =
      request(folder / "t.h5", "window;optimal;tova:scope=layer;spatten;h2o@persistence", {"6"});
  ResultStore whole(folder / "whole.sqlite", ResultStore::Access::write);
  sweep_into(whole, wanted);
  for (const int count : {2, 3, 7}) {
    CAPTURE(count);
    std::multiset<std::string> units;
    std::multiset<std::string> layers;
    for (int index = 1; index <= count; ++index) {
      wanted.shard = {index, count};
      const std::string name = std::to_string(index) + "-" + std::to_string(count) + ".sqlite";
      ResultStore part(folder / name, ResultStore::Access::write);
      if (sweep_into(part, wanted) == 0) continue;
      units.merge(rows_of(part, "replay"));
      layers.merge(rows_of(part, "layer_error"));
    }
    CHECK(units == rows_of(whole, "replay"));
    CHECK(layers == rows_of(whole, "layer_error"));
  }
}

TEST_CASE("a shard has the same work whatever its file holds, and does what is missing") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted = request(folder / "t.h5", "window;lfu", {"6"});
  wanted.shard = {2, 3};
  const std::size_t all = plan_sweep(wanted).num_remaining();
  ResultStore part(folder / "part.sqlite", ResultStore::Access::write);
  SweepRequest half = wanted;
  half.shard = {};
  half.policies = parse_specs("lfu");
  sweep_into(part, half);
  CHECK(sweep_into(part, wanted) == all / 2);
  CHECK(sweep_into(part, wanted) == 0);
}

TEST_CASE("a shard without work leaves a file that says that it is done") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted = request(folder / "t.h5", "window", {"6"});
  wanted.shard = {static_cast<int>(kUnits) + 1, static_cast<int>(kUnits) + 1};
  const SweepPlan plan = plan_sweep(wanted);
  CHECK(plan.units.empty());
  CHECK(note_of_empty_shard(plan) ==
        "shard 9/9: nothing to do, as the work has fewer parts than shards; its result file says "
        "so");
  ResultStore store(folder / "r.sqlite", ResultStore::Access::write);
  CHECK(sweep_into(store, wanted) == 0);
  CHECK(store.table("replay").rows.empty());
  const Table runs = store.table("run");
  REQUIRE(runs.rows.size() == 1);
  const auto value_of = [&](const std::string& name) {
    const auto column = std::find(runs.columns.begin(), runs.columns.end(), name);
    return runs.rows[0][static_cast<std::size_t>(column - runs.columns.begin())];
  };
  CHECK(value_of("shard") == Value(std::string("9/9")));
  CHECK(value_of("study") == Value(plan.study));
  CHECK(value_of("finished") == Value(std::int64_t{1}));
}

}  // namespace kvsim::shard_results_test
