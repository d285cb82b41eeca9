#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "sim/sweep/sweep_jobs.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::sweep_plan_test {

using namespace test_support;
using traces_test::TemporaryFolder;

std::vector<int> budgets_of(const PlannedUnit& unit) {
  std::vector<int> budgets;
  for (const PlannedReplay& replay : unit.replays) budgets.push_back(replay.budget);
  return budgets;
}

TEST_CASE("a plan lists every unit with every policy at every budget", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const SweepPlan plan = plan_sweep(request(folder / "t.h5", "window;h2o", {"5", "7"}));
  REQUIRE(plan.units.size() == kUnits);
  CHECK(plan.num_replays() == kUnits * 4);
  CHECK(plan.num_remaining() == kUnits * 4);
  CHECK(memory_bytes(plan, jobs_of(plan), *make_cpu_backend()) > 0);
  CHECK(name_of(plan.units.front().unit.name) == "a 0 0");
  CHECK(name_of(plan.units.back().unit.name) == "b 1 1");
}

TEST_CASE("a plan needs a policy and a budget", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted = request(folder / "t.h5", "window", {"5"});
  wanted.policies.clear();
  CHECK_THROWS_AS(plan_sweep(wanted), UsageError);
  CHECK_THROWS_AS(plan_sweep(request(folder / "t.h5", "window", {})), UsageError);
}

TEST_CASE("a share is of the sequence, or of the prompt", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted = request(folder / "t.h5", "window", {"10%", "0.5"});
  const SweepPlan stream = plan_sweep(wanted);
  CHECK(budgets_of(stream.units.front()) == std::vector<int>{4, 20});  // of 40
  CHECK(budgets_of(stream.units.back()) == std::vector<int>{3, 13});   // of 25
  wanted.protocol.mode = Mode::prefill;
  const SweepPlan prefill = plan_sweep(wanted);
  CHECK(budgets_of(prefill.units.front()) == std::vector<int>{1, 5});  // of 10
  CHECK(budgets_of(prefill.units.back()) == std::vector<int>{1, 5});
}

TEST_CASE("equal budgets asked for twice are replayed once", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const SweepPlan plan = plan_sweep(request(folder / "t.h5", "window", {"25%", "10", "10"}));
  CHECK(budgets_of(plan.units.front()) == std::vector<int>{10});  // a quarter of 40
  CHECK(plan.units.front().replays[0].budget_request == "25%");
  CHECK(budgets_of(plan.units.back()) == std::vector<int>{6, 10});
}

TEST_CASE("a trace named twice is replayed once", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  write_random_trace(folder / "u.h5", 2);
  SweepRequest wanted = request(folder / "t.h5", "window", {"5"});
  wanted.traces = {folder / "t.h5", folder / "u.h5", folder / "t.h5"};
  CHECK(plan_sweep(wanted).units.size() == 2 * kUnits);
}

TEST_CASE("what cannot be swept is refused before any work", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1, 0);
  SweepRequest wanted = request(folder / "t.h5", "window", {"5"});
  wanted.selection.layers = {7};
  CHECK_THROWS_AS(plan_sweep(wanted), UsageError);
  wanted.selection.layers = {};
  wanted.protocol.mode = Mode::prefill;
  CHECK_THROWS_AS(plan_sweep(wanted), UsageError);  // there is no prompt
  wanted.traces = {folder / "none.h5"};
  CHECK_THROWS_AS(plan_sweep(wanted), DataError);
}

}  // namespace kvsim::sweep_plan_test
