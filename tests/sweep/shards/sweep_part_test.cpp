// Another process plans jobs again from their description.

#include "sim/sweep/shards/sweep_part.h"

#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "sim/sweep/shards/work_items.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::sweep_part_test {

using namespace test_support;
using traces_test::TemporaryFolder;

constexpr int kHidden = 9;

/// All that decides which numbers a job gives.
std::string described(const SweepPlan& plan, const SweepJob& job) {
  std::string text = fmt::format("{} {}", job.whole_layers, job.needs_profiles);
  for (const JobUnit& unit : job.units) {
    text += fmt::format(", {}{}", name_of(unit.name), unit.planned ? "" : " unplanned");
  }
  for (const PlannedReplay& replay : job.replays) {
    text += fmt::format("; {} {} {}", plan.policy_of(replay).text(), replay.budget,
                        replay.budget_request);
  }
  return text;
}

SweepRequest on_open_trace(SweepRequest wanted) {
  wanted.open_traces = {Trace(wanted.traces.front())};
  wanted.traces.clear();
  return wanted;
}

void check_parts_make_the_jobs(const SweepRequest& wanted, const SweepPlan& plan) {
  const std::vector<SweepJob> jobs = jobs_of(plan);
  for (const WorkItem& item : work_items(plan, jobs)) {
    std::vector<std::string> expected;
    for (const std::size_t job : item.jobs) expected.push_back(described(plan, jobs[job]));
    std::vector<std::string> found;
    for (const SweepPart& part : parts_of(plan, jobs, item.jobs)) {
      const SweepPlan again = plan_part(wanted, part);
      for (const SweepJob& job : jobs_of(again)) found.push_back(described(again, job));
    }
    CHECK(found == expected);
  }
}

TEST_CASE("a part is planned as the jobs that it was made of", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1, kPrompt, GENERATE(0, kHidden));
  SweepRequest wanted = on_open_trace(
      request(folder / "t.h5", "window;spatten;h2o;tova:scope=layer;h2o@adaptive", {"5", "20%"}));
  SECTION("of all units") {}
  SECTION("of some heads") { wanted.selection.kv_heads = {1}; }
  SECTION("of some layers") { wanted.selection.layers = {1}; }
  SECTION("of a shard") { wanted.shard = {2, 3}; }
  check_parts_make_the_jobs(wanted, plan_sweep(wanted));
}

TEST_CASE("a part of what remains keeps the order of its configurations", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1, kPrompt, kHidden);
  const SweepRequest wanted =
      on_open_trace(request(folder / "t.h5", "window;h2o;tova", {"5", "7"}));
  SweepPlan plan = plan_sweep(wanted);
  plan.units[0].remaining.erase(plan.units[0].remaining.begin());
  plan.units[2].remaining.clear();
  check_parts_make_the_jobs(wanted, plan);
}

TEST_CASE("jobs that need the same measurements are one work item", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const SweepPlan plan = plan_sweep(request(folder / "t.h5", "window;h2o@adaptive", {"5"}));
  const std::vector<SweepJob> jobs = jobs_of(plan);
  REQUIRE(jobs.size() == 2 * kUnits);
  const std::vector<WorkItem> items = work_items(plan, jobs);
  CHECK(items.size() == kUnits + 2);  // two sequences
  std::size_t measured = 0;
  for (const WorkItem& item : items) {
    CHECK(item.nanoseconds > 0);
    measured += item.jobs.size() > 1 ? item.jobs.size() : 0;
  }
  CHECK(measured == kUnits);
}

TEST_CASE("a part that the trace lacks is refused", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const SweepRequest wanted = on_open_trace(request(folder / "t.h5", "window", {"5"}));
  const SweepPart part{.sequence = "a", .units = {{0, 0, {{0, 6}}}}};
  CHECK_THROWS_AS(plan_part(wanted, part), DataError);
}

}  // namespace kvsim::sweep_part_test
