#include <catch2/catch.hpp>
#include <limits>

#include "sim/base/errors.h"
#include "sim/results/version.h"
#include "sim/sweep/run_sweep.h"
#include "tests/support/compare.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::sweep_test {

using namespace test_support;
using traces_test::TemporaryFolder;

const std::atomic<bool> kNeverInterrupted = false;

// Runs a plan, collecting the units that finish in `finished` even if it throws.
void run(const SweepPlan& plan, std::vector<std::string>& finished) {
  run_sweep(plan, *make_cpu_backend(), kNeverInterrupted,
            [&](const PlannedUnit& unit, const std::vector<Outcome>&) {
              finished.push_back(name_of(unit.unit.name));
            });
}

void spoil(const std::filesystem::path& file, const std::string& layer, hsize_t head) {
  const H5::H5File trace = traces_test::edit(file);
  traces_test::set_number(trace, "/sequences/" + layer + "/key", {head, 3, 1},
                          std::numeric_limits<float>::quiet_NaN());
}

TEST_CASE("a row says what it is of", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted = request(folder / "t.h5", "h2o:score=mean", {"20%"});
  wanted.selection = {{"b"}, {1}, {0}};
  wanted.seed = -3;
  std::vector<Outcome> outcomes;
  run_sweep(plan_sweep(wanted), *make_cpu_backend(), kNeverInterrupted,
            [&](const PlannedUnit&, const std::vector<Outcome>& finished) { outcomes = finished; });
  REQUIRE(outcomes.size() == 1);
  const Result& row = outcomes[0].result;
  CHECK(row.trace_id == Trace(folder / "t.h5").id());
  CHECK(row.sequence == "b");
  CHECK(row.layer == 1);
  CHECK(row.kv_head == 0);
  CHECK(row.policy ==
        "h2o:recent=0.5,score=mean,overlap=no,precision=double,positions=text,keep=heavy");
  CHECK(row.budget == 5);
  CHECK(row.budget_request == "20%");
  CHECK(row.mode == "stream");
  CHECK(row.seed == -3);
  CHECK(row.trace == (folder / "t.h5").string());
  CHECK(row.steps == kShortSequence);
  CHECK(row.device == "cpu");
  CHECK(row.kvsim_version == version());
  CHECK(outcomes[0].trajectory.evicted_after.empty());
}

TEST_CASE("a sweep run again does only what is missing", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const auto sweep_into = [&](ResultStore& store, const SweepRequest& wanted) {
    SweepPlan plan = plan_sweep(wanted);
    skip_finished(plan, store);
    const std::size_t remaining = plan.num_remaining();
    run_sweep(plan, *make_cpu_backend(), kNeverInterrupted,
              [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
                std::vector<Result> rows;
                for (const Outcome& outcome : outcomes) rows.push_back(outcome.result);
                store.add(rows);
              });
    return remaining;
  };
  const SweepRequest all = request(folder / "t.h5", "window;h2o;random", {"5", "9"});
  ResultStore whole(folder / "whole.sqlite", ResultStore::Access::write);
  CHECK(sweep_into(whole, all) == kUnits * 6);

  ResultStore parts(folder / "parts.sqlite", ResultStore::Access::write);
  SweepRequest some = request(folder / "t.h5", "h2o", {"5"});
  CHECK(sweep_into(parts, some) == kUnits);
  some = all;
  some.selection.layers = {1};
  CHECK(sweep_into(parts, some) == kUnits / 2 * 5);
  CHECK(sweep_into(parts, all) == kUnits / 2 * 5);
  CHECK(sweep_into(parts, all) == 0);
  const std::string trace_id = Trace(folder / "t.h5").id();
  const auto parts_rows = parts.results(trace_id, "stream", 0);
  const auto whole_rows = whole.results(trace_id, "stream", 0);
  CHECK(parts_rows.size() == kUnits * 6);
  CHECK(std::equal(parts_rows.begin(), parts_rows.end(), whole_rows.begin(), whole_rows.end(),
                   agree));

  SweepRequest other = all;
  other.seed = 1;
  CHECK(sweep_into(parts, other) == kUnits * 6);
  other = all;
  other.protocol.mode = Mode::prefill;
  CHECK(sweep_into(parts, other) == kUnits * 6);
}

TEST_CASE("a unit that cannot be read leaves the finished ones and is reported", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  spoil(folder / "t.h5", "a/layers/1", 1);
  spoil(folder / "t.h5", "b/layers/0", 0);
  SweepRequest wanted = request(folder / "t.h5", "window", {"5"});
  std::vector<std::string> finished;
  SECTION("one thread stops there") {
    CHECK_THROWS_WITH(run(plan_sweep(wanted), finished),
                      Catch::Contains("t.h5") && Catch::Contains("/sequences/a/layers/1/key"));
    CHECK(finished == std::vector<std::string>{"a 0 0", "a 0 1", "a 1 0"});
  }
  SECTION("several threads report what they have finished") {
    wanted.threads = 4;
    CHECK_THROWS_AS(run(plan_sweep(wanted), finished), DataError);
    for (const std::string& unit : finished) CHECK((unit != "a 1 1" && unit != "b 0 0"));
  }
  SECTION("units that are not selected do no harm") {
    wanted.selection.layers = {1};
    wanted.selection.kv_heads = {0};
    CHECK_NOTHROW(run(plan_sweep(wanted), finished));
    CHECK(finished.size() == 2);
  }
}

TEST_CASE("a failure to keep what has finished is reported", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted = request(folder / "t.h5", "window", {"5"});
  wanted.threads = GENERATE(1, 3);
  int calls = 0;
  CHECK_THROWS_WITH(run_sweep(plan_sweep(wanted), *make_cpu_backend(), kNeverInterrupted,
                              [&](const PlannedUnit&, const std::vector<Outcome>&) {
                                ++calls;
                                throw std::runtime_error("the disk is full");
                              }),
                    "the disk is full");
  CHECK(calls <= wanted.threads);
}

TEST_CASE("an interrupted sweep keeps what has finished", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const SweepPlan plan = plan_sweep(request(folder / "t.h5", "window", {"5"}));
  const std::size_t stop_after = GENERATE(0u, 1u, 3u);
  std::atomic<bool> interrupted = stop_after == 0;
  std::size_t finished = 0;
  CHECK_THROWS_AS(run_sweep(plan, *make_cpu_backend(), interrupted,
                            [&](const PlannedUnit&, const std::vector<Outcome>&) {
                              if (++finished == stop_after) interrupted = true;
                            }),
                  Interrupted);
  CHECK(finished == stop_after);
}

}  // namespace kvsim::sweep_test
