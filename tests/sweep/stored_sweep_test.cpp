#include "sim/sweep/stored_sweep.h"

#include <catch2/catch.hpp>

#include "sim/results/regret.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::stored_sweep_test {

using namespace test_support;
using traces_test::TemporaryFolder;

std::vector<Result> stored(const SweepRequest& wanted, ResultStore& store, bool force = false) {
  SweepPlan plan = plan_sweep(wanted);
  begin_sweep(plan, store, {"a command", "cpu"}, force);
  const std::atomic<bool> interrupted = false;
  run_sweep(plan, *make_cpu_backend(), interrupted,
            [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
              store_unit(outcomes, store);
            });
  return rows_of_sweep(plan, store);
}

TEST_CASE("stored sweep: rows come back in the order of their key, in memory as from a file") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const SweepRequest wanted = request(folder / "t.h5", "window;h2o;lfu", {"6", "3", "50%"});
  ResultStore in_memory;
  ResultStore in_file(folder / "results.sqlite", ResultStore::Access::write);
  const std::vector<Result> rows = stored(wanted, in_memory);
  const std::vector<Result> of_file = stored(wanted, in_file);
  const Table table = in_file.table("replay");
  REQUIRE(rows.size() == 3 * 3 * kUnits);
  REQUIRE(of_file.size() == rows.size());
  REQUIRE(table.rows.size() == rows.size());
  for (const Column& column : result_columns()) {
    if (std::string(column.name) == "run_id") continue;
    INFO(column.name);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CHECK(column.get(rows[i]) == column.get(of_file[i]));
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(Value(of_file[i].policy) == table.rows[i][4]);
    CHECK(Value(of_file[i].budget) == table.rows[i][5]);
  }
}

TEST_CASE("stored sweep: only rows that were asked for come back, finished ones among them") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 2);
  ResultStore store;
  const std::vector<Result> first = stored(request(folder / "t.h5", "window;lru", {"5"}), store);
  const std::string first_run = first.front().run_id;
  CHECK_FALSE(first_run.empty());
  const std::vector<Result> second = stored(request(folder / "t.h5", "lru;lfu", {"5"}), store);
  REQUIRE(second.size() == 2 * kUnits);
  for (const Result& row : second)
    CHECK((row.run_id == first_run) == row.policy.starts_with("lru"));
  for (const Result& row : stored(request(folder / "t.h5", "lru", {"5"}), store, true)) {
    CHECK(row.run_id != first_run);
  }
}

TEST_CASE("stored sweep: a unit that beats a bound keeps the units beside it") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 3);
  SweepPlan plan = plan_sweep(request(folder / "t.h5", "window;optimal", {"5"}));
  std::vector<std::vector<Outcome>> units;
  const std::atomic<bool> interrupted = false;
  run_sweep(plan, *make_cpu_backend(), interrupted,
            [&](const PlannedUnit&, std::vector<Outcome> outcomes) {
              units.push_back(std::move(outcomes));
            });
  REQUIRE(units.size() == kUnits);
  units[1].front().result.attention_recall = 1;
  units[1].front().result.attention_loss = 0;
  ResultStore store;
  CHECK_THROWS_AS(store_units(units, store), BoundExceeded);
  CHECK(rows_of_sweep(plan, store).size() == 2 * (kUnits - 1));
}

}  // namespace kvsim::stored_sweep_test
