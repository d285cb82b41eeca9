// Which shard does what of sweeps and curves.

#include "sim/sweep/shards/sharding.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "sim/sweep/run_curves.h"
#include "sim/sweep/shards/job_cost.h"
#include "sim/sweep/sweep_jobs.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::sharding_test {

using namespace test_support;
using traces_test::TemporaryFolder;

constexpr int kMostShards = 16;
constexpr const char* kOfAllScopes =
    "window;optimal;tova:scope=layer;spatten;lru@pyramid;h2o@persistence";

/// A replay of a unit, in words.
using Replays = std::multiset<std::string>;

Replays replays_of(const SweepPlan& plan) {
  Replays replays;
  for (const PlannedUnit& unit : plan.units) {
    for (const PlannedReplay& replay : unit.replays) {
      replays.insert(fmt::format("{} {} {}", name_of(unit.unit.name), plan.policy_of(replay).text(),
                                 replay.budget));
    }
  }
  return replays;
}

/// A job in words: its selected units and what is replayed of them.
std::string text_of(const SweepPlan& plan, const SweepJob& job) {
  std::string text;
  for (const JobUnit& unit : job.units) text += unit.planned ? name_of(unit.name) + '\n' : "";
  for (const PlannedReplay& replay : job.replays) {
    text += fmt::format("{} {}\n", plan.policy_of(replay).text(), replay.budget);
  }
  return text;
}

/// The estimated cost of every item of a plan: a job, or all jobs that share measurements.
std::vector<std::int64_t> items_of(const SweepPlan& plan) {
  std::vector<std::int64_t> costs;
  std::map<std::string, std::int64_t> measured;
  for (const SweepJob& job : jobs_of(plan)) {
    const std::int64_t cost = estimated_nanoseconds(plan, job);
    if (job.needs_profiles) {
      measured[job.units.front().name.sequence] += cost;
    } else {
      costs.push_back(cost);
    }
  }
  for (const auto& [sequence, cost] : measured) costs.push_back(cost);
  return costs;
}

std::vector<SweepPlan> shards_of(const SweepRequest& whole, int count) {
  std::vector<SweepPlan> plans;
  for (int index = 1; index <= count; ++index) {
    SweepRequest request = whole;
    request.shard = {index, count};
    plans.push_back(plan_sweep(request));
  }
  return plans;
}

TEST_CASE("shards of a sweep are its jobs, each once, for every number of shards") {
  const TemporaryFolder folder;
  const int hidden = GENERATE(0, 9);  // 9: whole layers are measured
  write_random_trace(folder / "t.h5", 1, kPrompt, hidden);
  const SweepRequest whole = request(Trace(folder / "t.h5"), kOfAllScopes, {"6", "20%"});
  const SweepPlan plan = plan_sweep(whole);
  std::multiset<std::string> jobs;
  for (const SweepJob& job : jobs_of(plan)) jobs.insert(text_of(plan, job));
  const auto items = items_of(plan);
  for (int count = 1; count <= kMostShards; ++count) {
    CAPTURE(hidden, count);
    Replays found;
    std::multiset<std::string> found_jobs;
    std::vector<std::int64_t> loads;
    for (const SweepPlan& shard : shards_of(whole, count)) {
      found.merge(replays_of(shard));
      loads.push_back(0);
      for (const SweepJob& job : jobs_of(shard)) {
        found_jobs.insert(text_of(shard, job));
        loads.back() += estimated_nanoseconds(shard, job);
      }
    }
    CHECK(found == replays_of(plan));
    CHECK(found_jobs == jobs);
    const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
    CHECK(*most - *least <= *std::max_element(items.begin(), items.end()));
  }
}

TEST_CASE("shards of a sweep keep the units together that need the same measurements") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const SweepRequest whole = request(Trace(folder / "t.h5"), "h2o@persistence", {"6"});
  std::size_t busy = 0;
  for (const SweepPlan& shard : shards_of(whole, 4)) {
    if (shard.units.empty()) continue;
    ++busy;
    CHECK(shard.units.size() == kUnits / 2);  // those of a sequence
  }
  CHECK(busy == 2);
}

TEST_CASE("shards of a curve are its units, each once, for every number of shards") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest whole = request(Trace(folder / "t.h5"), "window;optimal", {"6"});
  const Replays all = replays_of(plan_curves(whole, ErrorBudgets("none", "")).sweep);
  for (int count = 1; count <= kMostShards; ++count) {
    CAPTURE(count);
    Replays found;
    std::set<std::string> studies;
    for (int index = 1; index <= count; ++index) {
      whole.shard = {index, count};
      const CurvePlan shard = plan_curves(whole, ErrorBudgets("none", ""));
      found.merge(replays_of(shard.sweep));
      studies.insert(shard.sweep.study);
    }
    CHECK(found == all);
    CHECK(studies.size() == 1);
  }
  const CurvePlan with_errors = plan_curves(whole, ErrorBudgets("all", ""));
  CHECK(with_errors.sweep.study != plan_curves(whole, ErrorBudgets("none", "")).sweep.study);
}

TEST_CASE("a study is the same for all shards of the same work, wherever its trace lies") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted = request(Trace(folder / "t.h5"), kOfAllScopes, {"6"});
  CHECK(plan_sweep(wanted).study.empty());
  const std::vector<SweepPlan> shards = shards_of(wanted, 3);
  const std::string study = shards.front().study;
  CHECK(study.size() == 16);
  for (const SweepPlan& shard : shards) CHECK(shard.study == study);

  std::filesystem::copy_file(folder / "t.h5", folder / "moved.h5");
  SweepRequest moved = wanted;
  moved.traces = {folder / "moved.h5"};
  moved.threads = 7;
  const std::vector<SweepPlan> elsewhere = shards_of(moved, 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(elsewhere[i].study == study);
    CHECK(replays_of(elsewhere[i]) == replays_of(shards[i]));
  }

  std::vector<SweepRequest> others(6, wanted);
  write_random_trace(folder / "other.h5", 2);
  others[0].traces = {folder / "other.h5"};
  others[1].policies = parse_specs("window");
  others[2].budgets = {Amount::parse("7", "--budgets")};
  others[3].seed = 1;
  others[4].selection.layers = {1};
  others[5].protocol.error_stride = 2;
  for (SweepRequest& other : others) {
    other.shard = {1, 3};
    CHECK(plan_sweep(other).study != study);
  }
  wanted.shard = {1, 4};
  CHECK(plan_sweep(wanted).study != study);
}

TEST_CASE("a shard says what share of the work it is") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted = request(Trace(folder / "t.h5"), "window;lfu", {"6"});
  wanted.selection.sequences = {"a"};  // units of equal cost
  CHECK(note_of_shard(plan_sweep(wanted), "replay").empty());
  wanted.shard = {2, 4};
  const SweepPlan plan = plan_sweep(wanted);
  CHECK(note_of_shard(plan, "replay") == "shard 2/4: 2 of 8 replays, about 25.0% of the work");
  CHECK(note_of_shard(plan, "unit") == "shard 2/4: 1 of 4 units, about 25.0% of the work");
  CHECK(note_of_empty_shard(plan).empty());
}

}  // namespace kvsim::sharding_test
