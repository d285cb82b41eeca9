#include "sim/sweep/sweep_output.h"

#include <catch2/catch.hpp>

#include "sim/results/regret.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::sweep_output_test {

using namespace test_support;
using traces_test::TemporaryFolder;

std::vector<Result> stored(const SweepRequest& wanted, const Output& output, bool force = false) {
  SweepPlan plan = plan_sweep(wanted);
  SweepOutput rows(plan, output, "cpu", force);
  const std::atomic<bool> interrupted = false;
  run_sweep(
      plan, *make_cpu_backend(), interrupted,
      [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) { rows.add({outcomes}); });
  rows.finish();
  return rows.rows(plan);
}

TEST_CASE("sweep output: rows come back in the order of their key, in memory as from a file") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const SweepRequest wanted = request(folder / "t.h5", "window;h2o;lfu", {"6", "3", "50%"});
  const std::vector<Result> rows = stored(wanted, {});
  const std::vector<Result> of_file = stored(wanted, {.file = folder / "results.sqlite"});
  const Table table =
      ResultStore(folder / "results.sqlite", ResultStore::Access::read).table("replay");
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

TEST_CASE("sweep output: only rows that were asked for come back, finished ones among them") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 2);
  const Output file{.file = folder / "results.sqlite"};
  const std::vector<Result> first = stored(request(folder / "t.h5", "window;lru", {"5"}), file);
  const std::string first_run = first.front().run_id;
  CHECK_FALSE(first_run.empty());
  const std::vector<Result> second = stored(request(folder / "t.h5", "lru;lfu", {"5"}), file);
  REQUIRE(second.size() == 2 * kUnits);
  for (const Result& row : second)
    CHECK((row.run_id == first_run) == row.policy.starts_with("lru"));
  for (const Result& row : stored(request(folder / "t.h5", "lru", {"5"}), file, true)) {
    CHECK(row.run_id != first_run);
  }
}

TEST_CASE("sweep output: a unit that beats a bound does not cost other units their rows") {
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
  for (const Output& output : {Output{}, Output{.file = folder / "results.sqlite"}}) {
    SweepOutput rows(plan, output, "cpu");
    CHECK_THROWS_AS(rows.add(units), BoundExceeded);
    CHECK(rows.rows(plan).size() == 2 * (kUnits - 1));
  }
}

}  // namespace kvsim::sweep_output_test
