// Values that no row can have are refused where rows are read.

#include "sim/results/integrity/value_ranges.h"

#include <catch2/catch.hpp>
#include <limits>

#include "sim/base/errors.h"
#include "sim/results/integrity/check_results.h"
#include "sim/results/merge/merge.h"
#include "sim/results/result_tables.h"
#include "tests/results/result_files.h"

namespace kvsim::results_test::value_ranges_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

constexpr const char* kKey =
    "table replay, trace_id='id', sequence='text', layer=0, kv_head=0, policy='h2o', budget=4, "
    "mode='stream', seed=0: ";

TEST_CASE("values out of range are refused by every reader", "[integrity]") {
  const TemporaryFolder folder;
  const auto file = write(folder / "r.sqlite", {row("h2o")});
  const auto [value, found] = GENERATE(Catch::Generators::table<std::string, std::string>({
      {"attention_recall = 2", "attention_recall: expected 0 .. 1, found 2"},
      {"attention_recall = -0.01", "attention_recall: expected 0 .. 1, found -0.01"},
      {"output_error_sq = 9e999", "output_error_sq: expected a finite number, found inf"},
      {"output_error_max = -1", "output_error_max: expected 0 or more, found -1"},
      {"bound_mean = 'much'", "bound_mean: expected a number, found 'much'"},
      {"steps = 'x'", "steps: expected an integer, found 'x'"},
      {"ties = 0.5", "ties: expected an integer, found 0.5"},
      {"evictions = -1", "evictions: expected 0 or more, found -1"},
  }));
  edit(file, "UPDATE replay SET " + value);
  const auto refused = Contains(file.string() + ": " + kKey + found);
  const ResultStore store(file, Access::read);
  CHECK_THROWS_AS(store.policy_results("h2o"), DataError);
  CHECK_THROWS_WITH(store.policy_results("h2o"), refused);
  CHECK_THROWS_WITH(store.results("id", "stream", 0), refused);
  CHECK_THROWS_WITH(store.table("replay"), refused);
  CHECK_THROWS_WITH(check_results(file), refused);
  forget_digests(file);
  CHECK_THROWS_WITH(merge_results({file}, folder / "all.sqlite"), refused);
}

std::string fault_of(const std::string& table, const ColumnShape& column, const Value& value) {
  try {
    ValueCheck("r", table, {column})(std::vector{value});
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a budget below 1 is refused in the tables of analyses, too", "[integrity]") {
  CHECK_THAT(fault_of("evictions", {"budget", "INTEGER"}, std::int64_t{0}),
             Contains("budget: expected 1 or more, found 0"));
  CHECK(fault_of("evictions", {"regret", "REAL"}, 7.5).empty());
  CHECK_THAT(fault_of("evictions", {"regret", "REAL"}, std::numeric_limits<double>::infinity()),
             Contains("expected a finite number, found inf"));
}

TEST_CASE("rounding and NULL are in range", "[integrity]") {
  CHECK(fault_of("replay", {"attention_recall", "REAL"}, 1 + 1e-6).empty());
  CHECK(fault_of("replay", {"attention_loss", "REAL"}, -1e-9).empty());
  CHECK(fault_of("replay", {"attention_recall", "REAL"}, std::monostate()).empty());
  CHECK(fault_of("replay", {"seed", "INTEGER"}, std::int64_t{-1}).empty());
  CHECK_FALSE(fault_of("replay", {"attention_recall", "REAL"}, 1.01).empty());
}

TEST_CASE("counts, shares and budgets have their range in every table", "[integrity]") {
  for (const auto* schemas : {&result_tables(), &result_views()}) {
    for (const TableSchema& schema : *schemas) {
      for (const ColumnSchema& column : schema.columns) {
        INFO(schema.name << ' ' << column.name);
        const bool is_count = column.type == ColumnSchema::Type::integer && column.name != "seed";
        const bool is_share = column.meaning.find("0..1") != std::string::npos;
        if (!is_count && !is_share) continue;
        const ColumnShape shape{column.name, sql_type(column.type)};
        const std::string found = is_count ? fault_of(schema.name, shape, std::int64_t{-1})
                                           : fault_of(schema.name, shape, -1.5);
        CHECK_FALSE(found.empty());
      }
    }
  }
}

}  // namespace kvsim::results_test::value_ranges_test
