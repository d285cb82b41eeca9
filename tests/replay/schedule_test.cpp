#include <H5Cpp.h>

#include <catch2/catch.hpp>
#include <map>

#include "sim/base/errors.h"
#include "sim/results/per_step_file.h"
#include "sim/results/schedule_file.h"
#include "tests/support/compare.h"
#include "tests/support/nightly.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "tests/support/variants.h"

namespace kvsim::schedule_test {

using namespace test_support;
using traces_test::TemporaryFolder;

std::map<std::string, Result> write_schedule(const SweepRequest& wanted,
                                             const std::filesystem::path& file) {
  SweepRequest request = wanted;
  request.trajectories = true;
  PerStepFile record(file);
  std::map<std::string, Result> rows;
  const std::atomic<bool> interrupted = false;
  run_sweep(plan_sweep(request), *make_cpu_backend(), interrupted,
            [&](const PlannedUnit& unit, const std::vector<Outcome>& outcomes) {
              record.add(outcomes.front().result, outcomes.front().trajectory);
              rows.emplace(name_of(unit.unit.name), outcomes.front().result);
            });
  record.close();
  return rows;
}

TEST_CASE("the schedule that a replay wrote gives its numbers again", "[schedule]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const Trace trace(folder / "t.h5");
  for (const Variant& variant : all_variants()) {
    const Rules rules = variant.spec.rules({});
    // Where sanitizers watch, of the parameters only the defaults.
    if (is_watched() && !variant.param.empty()) continue;
    // A schedule says which tokens stay, not which are read or attended to.
    if (!rules.is_exact() || rules.selects || variant.spec.is_estimator()) continue;
    CAPTURE(variant.spec.text());
    SweepRequest wanted = request(trace, variant.spec.text(), {"6"});
    if (!rules.bounded) wanted.budgets = {Amount::parse("100%", "")};
    wanted.protocol.mode = variant.param.size() % 2 == 0 ? Mode::stream : Mode::prefill;
    wanted = by_protocol(wanted).front();
    const auto rows = write_schedule(wanted, folder / "s.h5");
    wanted.policies = {Spec("schedule:file=" + (folder / "s.h5").string())};
    if (!rules.bounded) wanted.budgets = {Amount::parse("40", "")};
    for (auto [unit, row] : write_schedule(wanted, folder / "again.h5")) {
      row.policy = rows.at(unit).policy;
      row.policy_code = rows.at(unit).policy_code;
      row.budget = rows.at(unit).budget;
      row.budget_request = rows.at(unit).budget_request;
      row.ties = rows.at(unit).ties;  // of the scores, which a schedule does not know
      CHECK(agree(row, rows.at(unit)));
    }
  }
}

std::string refused(const SweepRequest& wanted) {
  const std::atomic<bool> interrupted = false;
  try {
    run_sweep(plan_sweep(wanted), *make_cpu_backend(), interrupted, [](const auto&, auto) {});
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a schedule of an eviction interval replays to the same numbers", "[schedule]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  for (const int interval : {3, kNeverEvict}) {
    SweepRequest wanted = request(folder / "t.h5", "lru", {"6"});
    wanted.protocol.mode = Mode::prefill;
    wanted.protocol.eviction_interval = interval;
    const auto rows = write_schedule(wanted, folder / "s.h5");
    wanted.policies = {Spec("schedule:file=" + (folder / "s.h5").string())};
    for (const auto& [unit, row] : write_schedule(wanted, folder / "again.h5")) {
      CHECK(row.attention_recall == rows.at(unit).attention_recall);
      CHECK(row.evictions == rows.at(unit).evictions);
      CHECK(row.peak_tokens == rows.at(unit).peak_tokens);
    }
  }
}

TEST_CASE("a schedule that does not fit is refused, naming what is wrong", "[schedule]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted = request(folder / "t.h5", "window", {"6"});
  wanted.selection.layers = {0};
  write_schedule(wanted, folder / "s.h5");
  wanted.policies = {Spec("schedule:file=" + (folder / "s.h5").string())};
  CHECK(refused(wanted) == "");
  SECTION("it keeps more than the budget") {
    wanted.budgets = {Amount::parse("5", "")};
    CHECK_THAT(refused(wanted),
               Catch::Contains("keeps at most 5 tokens") && Catch::Contains("6 after step 5"));
  }
  SECTION("under an interval it does not cut down to the budget") {
    wanted.budgets = {Amount::parse("5", "")};
    wanted.protocol.eviction_interval = 2;
    CHECK_THAT(refused(wanted),
               Catch::Contains("keeps at most 5 tokens") && Catch::Contains("6 after step 6"));
  }
  SECTION("it lacks a unit") {
    wanted.selection.layers = {1};
    CHECK_THAT(refused(wanted), Catch::Contains("/sequences/a/layers/1"));
  }
  SECTION("it is of another length") {
    write_random_trace(folder / "other.h5", 2);
    H5::H5File file((folder / "s.h5").string(), H5F_ACC_RDWR);
    const char* path = "/sequences/a/layers/0/kv_heads/0/evicted_after";
    file.unlink(path);
    const hsize_t count = 3;
    const std::int32_t steps[] = {3, 3, 3};
    file.createDataSet(path, H5::PredType::STD_I32LE, H5::DataSpace(1, &count))
        .write(steps, H5::PredType::NATIVE_INT32);
    file.close();
    CHECK_THAT(refused(wanted), Catch::Contains(path) && Catch::Contains("shape [40]"));
  }
  SECTION("a token leaves before it comes") {
    H5::H5File file((folder / "s.h5").string(), H5F_ACC_RDWR);
    std::vector<std::int32_t> steps(40, 7);
    file.openDataSet("/sequences/a/layers/0/kv_heads/0/evicted_after")
        .write(steps.data(), H5::PredType::NATIVE_INT32);
    file.close();
    CHECK_THAT(refused(wanted), Catch::Contains("a step in 8..40") && Catch::Contains("7 at [8]"));
  }
  SECTION("it is another file") {
    wanted.policies = {Spec("schedule:file=" + (folder / "t.h5").string())};
    CHECK_THAT(refused(wanted), Catch::Contains("kv_heads"));
    wanted.policies = {Spec("schedule:file=" + (folder / "none.h5").string())};
    CHECK_THAT(refused(wanted), Catch::Contains("no such file"));
  }
}

/// Copies the schedules of `from` below /budgets/<budget> of `to`.
void add_budget(const std::filesystem::path& from, const std::filesystem::path& to, int budget) {
  const bool is_new = !std::filesystem::exists(to);
  H5::H5File all(to.string(), is_new ? H5F_ACC_TRUNC : H5F_ACC_RDWR);
  if (is_new) all.createGroup("/budgets");
  const std::string group = "/budgets/" + std::to_string(budget);
  all.createGroup(group);
  const H5::H5File one(from.string(), H5F_ACC_RDONLY);
  REQUIRE(H5Ocopy(one.getId(), "/sequences", all.getId(), (group + "/sequences").c_str(),
                  H5P_DEFAULT, H5P_DEFAULT) >= 0);
}

TEST_CASE("a schedule file may hold several budgets, and gives each its own", "[schedule]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  std::map<int, std::map<std::string, Result>> rows;
  for (const int budget : {6, 10, 12}) {
    const auto wanted = request(folder / "t.h5", "tova", {std::to_string(budget)});
    rows[budget] = write_schedule(wanted, folder / "s.h5");
    add_budget(folder / "s.h5", folder / "all.h5", budget);
  }
  SweepRequest wanted = request(folder / "t.h5", "window", {"10", "6"});
  wanted.policies = {Spec("schedule:file=" + (folder / "all.h5").string())};
  const std::atomic<bool> interrupted = false;
  std::size_t compared = 0;
  run_sweep(plan_sweep(wanted), *make_cpu_backend(), interrupted,
            [&](const PlannedUnit& unit, const std::vector<Outcome>& outcomes) {
              for (const Outcome& outcome : outcomes) {
                Result row = outcome.result;
                const Result& expected =
                    rows.at(static_cast<int>(row.budget)).at(name_of(unit.unit.name));
                row.policy = expected.policy;
                row.policy_code = expected.policy_code;
                row.ties = expected.ties;
                CHECK(agree(row, expected));
                ++compared;
              }
            });
  CHECK(compared == 2 * rows.at(6).size());

  wanted.budgets = {Amount::parse("6", ""), Amount::parse("11", "")};
  CHECK_THAT(refused(wanted), Catch::Contains("all.h5: /budgets") &&
                                  Catch::Contains("budget of 11 tokens") &&
                                  Catch::Contains("those for 6, 10, 12"));
}

TEST_CASE("a schedule needs a file", "[schedule]") {
  CHECK_THROWS_WITH(Spec("schedule"), Catch::Contains("schedule:file=PATH"));
  CHECK_THROWS_AS(Spec("schedule:file="), UsageError);
}

}  // namespace kvsim::schedule_test
