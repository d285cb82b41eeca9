#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "analysis/run_analyses.h"
#include "sim/base/errors.h"
#include "tests/plugin/plugin_files.h"
#include "tests/support/small_trace.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::plugin_analysis_test {

using Catch::Contains;
using traces_test::TemporaryFolder;
using Rows = std::vector<std::vector<Value>>;

/// The rows of the one analysis `what` of a trace, its own table first.
std::map<std::string, Rows> analysed(const std::filesystem::path& trace, std::string_view what) {
  AnalysisPlan plan = plan_analyses(parse_analyses(what), {.traces = {trace}}, false);
  const std::atomic<bool> interrupted = false;
  std::map<std::string, Rows> found;
  run_analyses(plan, *make_cpu_backend(), interrupted,
               [&](const PlannedUnit&, const std::vector<TableRows>& tables) {
                 for (const TableRows& table : tables) {
                   Rows& rows = found[table.schema->name];
                   rows.insert(rows.end(), table.rows.begin(), table.rows.end());
                 }
               });
  return found;
}

TEST_CASE("plugin: an analysis in C writes its table and the table of units") {
  load_plugin(plugin_file("key_norms"));
  const TemporaryFolder folder;
  const auto file = folder / "trace.h5";
  test_support::write_random_trace(file, 9);
  const auto tables = analysed(file, "key-norms:from=4");
  CHECK(tables.at("unit").size() == test_support::kUnits);
  const Rows& rows = tables.at("key_norms");
  REQUIRE(rows.size() == test_support::kUnits);
  const Trace trace(file);
  for (const std::vector<Value>& row : rows) {
    const auto at = [&](std::size_t place) { return std::get<std::int64_t>(row[place]); };
    const Unit unit = trace.read_unit(
        {std::get<std::string>(row[1]), static_cast<int>(at(2)), static_cast<int>(at(4))});
    CHECK(at(3) == at(4) * unit.group_size());
    CHECK(at(5) == unit.num_tokens() - 4);
    const Matrix keys = unit.key.bottomRows(unit.num_tokens() - 4);
    CHECK(std::get<double>(row[6]) == Approx(keys.rowwise().norm().mean()));
  }
}

TEST_CASE("plugin: NaN from an analysis is NULL, and its rows say which query head") {
  load_plugin(plugin_file("probe"));
  const TemporaryFolder folder;
  const auto file = folder / "trace.h5";
  test_support::write_random_trace(file, 10);
  const auto tables = analysed(file, "probe-rows");
  for (const std::vector<Value>& row : tables.at("probe_rows")) {
    CHECK(std::get<std::int64_t>(row[3]) % 2 == 1);
    CHECK(std::holds_alternative<std::monostate>(row[6]));
  }
}

TEST_CASE("plugin: an analysis sees what the model selects") {
  load_plugin(plugin_file("probe"));
  const TemporaryFolder folder;
  const auto file = folder / "trace.h5";
  const TraceHeader header = traces_test::small_header();
  constexpr int kTokens = traces_test::kSmallTokens;
  {
    TraceWriter writer(file, header, ElementType::float32);
    writer.begin_sequence("a", kTokens, 0, "", {});
    const auto numbers = traces_test::numbered_layer(header, kTokens, 0);
    writer.write_layer(0, numbers.query, numbers.key, numbers.value, numbers.output);
    SelectedTokens selected;
    for (std::int32_t step = 0; step < kTokens; ++step) {
      selected.add(std::vector{std::max(0, step - 1)});
    }
    writer.write_selected(selected);
    writer.close();
  }
  const auto tables = analysed(file, "probe-rows");
  for (const std::vector<Value>& row : tables.at("probe_rows")) {
    CHECK(std::get<double>(row[6]) == kTokens - 2);
  }
  for (const std::vector<Value>& row : tables.at("unit"))
    CHECK(row.back() == Value(std::int64_t{1}));
}

TEST_CASE("plugin: what an analysis adds wrongly is one error that names the unit") {
  load_plugin(plugin_file("probe"));
  const TemporaryFolder folder;
  const auto file = folder / "trace.h5";
  test_support::write_random_trace(file, 11);
  const auto [fault, reason] = GENERATE(table<std::string, std::string>(
      {{"query", "a row is wrong: expected a query head from 0 to 1, found 2"},
       {"whole", "a row is wrong: place: expected a whole number, found 0.5"},
       {"key", "a row is wrong: place is a key, found NaN"},
       {"twice", "two rows of query head 1 have the same key"},
       {"returns", "analyze() returned 12"}}));
  CHECK_THROWS_AS(analysed(file, "probe-rows:fault=" + fault), DataError);
  CHECK_THROWS_WITH(analysed(file, "probe-rows:fault=" + fault),
                    Contains("analysis probe-rows of " + plugin_file("probe").string()) &&
                        Contains("layer 0, KV head 0: " + reason));
}

}  // namespace kvsim::plugin_analysis_test
