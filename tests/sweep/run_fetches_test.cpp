#include "sim/sweep/run_fetches.h"

#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/support/interrupting_backend.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::sweep_test::run_fetches_test {

FetchPlan plan_of(const std::filesystem::path& trace, const std::string& selectors,
                  const std::string& resident) {
  SweepRequest request;
  request.traces = {trace};
  const std::vector<std::string> lists{selectors};
  const std::vector<std::string> residents{resident};
  return plan_fetches(request, {.selectors = parse_selectors(lists),
                                .resident = parse_residents(residents),
                                .replace = parse_replacements("lru,belady", "--replace")});
}

TEST_CASE("fetches: an interruption keeps the units that are finished, and no further one begins") {
  const traces_test::TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 1);
  const FetchPlan plan = plan_of(folder / "t.h5", "topk:k=4;quest:k=4,page=2", "50%");
  const test_support::InterruptingBackend backend(4);  // units have two blocks, or one
  int finished = 0;
  std::size_t rows = 0;
  CHECK_THROWS_AS(run_fetches(plan, backend, backend.interrupted(),
                              [&](const PlannedUnit&, const std::vector<Fetches>&,
                                  const std::vector<TableRows>& tables) {
                                ++finished;
                                rows += tables[0].rows.size();
                              }),
                  Interrupted);
  CHECK(finished == 1);
  CHECK(rows == 4);
}

TEST_CASE(
    "fetches: rows have a value for every column, and the estimated memory is above their own") {
  const traces_test::TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 1);
  const FetchPlan plan = plan_of(folder / "t.h5", "top-p:p=0.5", "50%,60%");
  CHECK(plan.memory_bytes() > 4 * 1600);
  const std::atomic<bool> interrupted = false;
  std::size_t units = 0;
  run_fetches(
      plan, *make_cpu_backend(), interrupted,
      [&](const PlannedUnit&, const std::vector<Fetches>&, const std::vector<TableRows>& tables) {
        ++units;
        for (const auto& row : tables[0].rows) {
          CHECK(row.size() == tables[0].schema->columns.size());
        }
      });
  CHECK(units == test_support::kUnits);
}

TEST_CASE("fetches: a size that is too small for a step is refused before any work") {
  const traces_test::TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 1);
  CHECK_THROWS_WITH(plan_of(folder / "t.h5", "topk:k=8", "8"),
                    Catch::Contains("expected at least 9"));
}

}  // namespace kvsim::sweep_test::run_fetches_test
