#include <catch2/catch.hpp>
#include <map>
#include <sstream>

#include "sim/sweep/run_sweep.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "tests/support/variants.h"

namespace kvsim::registry_sweep_test {

using namespace test_support;

using Key = std::vector<Value>;
using Rows = std::map<Key, Result>;

Key key_of(const Result& result) {
  Key key;
  for (const Column& column : result_columns().first(kKeyColumns)) {
    key.push_back(column.get(result));
  }
  return key;
}

SweepRequest every_variant_of(const std::filesystem::path& trace) {
  SweepRequest request;
  request.traces = {trace};
  for (const Variant& variant : all_variants()) request.policies.push_back(variant.spec);
  request.budgets = {Amount::parse("1", "budget"), Amount::parse("20%", "budget"),
                     Amount::parse("1.0", "budget")};
  return request;
}

Rows rows_of(const SweepRequest& wanted) {
  const std::atomic<bool> interrupted = false;
  Rows rows;
  for (const SweepRequest& request : by_protocol(wanted)) {
    run_sweep(plan_sweep(request), *make_cpu_backend(), interrupted,
              [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
                for (const Outcome& outcome : outcomes) {
                  rows.emplace(key_of(outcome.result), outcome.result);
                }
              });
  }
  return rows;
}

std::string csv_of(const Rows& rows) {
  std::vector<Result> results;
  for (const auto& [key, result] : rows) results.push_back(result);
  std::ostringstream out;
  write_csv(out, to_table(results));
  return out.str();
}

TEST_CASE("results are the same to the last bit for every number of threads", "[registry]") {
  const traces_test::TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest request = every_variant_of(folder / "t.h5");
  request.protocol.mode = GENERATE(Mode::stream, Mode::prefill);
  const std::string one = csv_of(rows_of(request));
  for (const int threads : {2, 5}) {
    request.threads = threads;
    CHECK(csv_of(rows_of(request)) == one);
  }
}

TEST_CASE("a row does not depend on which other rows a sweep makes", "[registry]") {
  const traces_test::TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const SweepRequest request = every_variant_of(folder / "t.h5");
  const Rows all = rows_of(request);
  const auto check_part = [&](const SweepRequest& part) {
    const Rows rows = rows_of(part);
    CHECK_FALSE(rows.empty());
    for (const auto& [key, result] : rows) {
      CAPTURE(result.policy, result.budget, result.sequence, result.layer, result.kv_head);
      REQUIRE(all.contains(key));
      CHECK(agree(result, all.at(key)));
    }
  };
  SweepRequest one_unit = request;
  one_unit.selection = {{"b"}, {1}, {0}};
  check_part(one_unit);
  SweepRequest one_budget = request;
  one_budget.budgets = {Amount::parse("20%", "budget")};
  check_part(one_budget);
  SweepRequest backwards = request;
  std::reverse(backwards.policies.begin(), backwards.policies.end());
  backwards.policies.resize(3, backwards.policies.front());
  check_part(backwards);
}

}  // namespace kvsim::registry_sweep_test
