#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/results/run.h"
#include "sim/results/store.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::certificate_rows_test {

using traces_test::TemporaryFolder;
using Access = ResultStore::Access;

Result proven(std::int64_t budget) {
  Result result;
  result.trace_id = std::string("id");
  result.sequence = std::string("text");
  result.policy = std::string("certificate");
  result.budget = budget;
  result.mode = std::string("stream");
  return result;
}

Value value_in(const Table& table, std::size_t row, const std::string& column) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), column);
  REQUIRE(found != table.columns.end());
  return table.rows.at(row)[static_cast<std::size_t>(found - table.columns.begin())];
}

constexpr Value kNull = std::monostate();

TEST_CASE("a certificate says by how much the loss may be above its bound", "[store]") {
  const TemporaryFolder folder;
  ResultStore store(folder / "r.sqlite", Access::write);
  store.add({proven(10), proven(20)},
            {{proven(10), {.loss = 0.5, .loss_bound = 0.375, .recall_bound = 0.625}},
             {proven(20), {.loss = 3, .loss_bound = 2}}});
  const Table table = store.table("certificate");
  CHECK(value_in(table, 0, "loss") == Value(0.5));
  CHECK(value_in(table, 0, "loss_bound") == Value(0.375));
  CHECK(value_in(table, 0, "gap") == Value(0.125));
  CHECK(value_in(table, 0, "recall_bound") == Value(0.625));
  CHECK(value_in(table, 1, "recall_bound") == kNull);
  CHECK_FALSE(store.recall_bound(proven(20)));
}

TEST_CASE("a certificate table of an earlier version keeps its rows and takes new ones",
          "[store]") {
  const bool has_run = GENERATE(false, true);
  const TemporaryFolder folder;
  {
    ResultStore store(folder / "r.sqlite", Access::write);
    store.add({proven(10)}, {{proven(10), {.recall_bound = 0.6}}});
  }
  SQLite::Database earlier(folder / "r.sqlite", SQLite::OPEN_READWRITE);
  for (const char* column : {"loss", "loss_bound", "gap"}) {
    earlier.exec(std::string("ALTER TABLE certificate DROP COLUMN ") + column);
  }
  if (!has_run) earlier.exec("ALTER TABLE certificate DROP COLUMN run_id");
  ResultStore store(folder / "r.sqlite", Access::write);
  store.begin_run({.command = "kvsim sweep", .device = "cpu", .threads = 1});
  store.add({proven(20)}, {{proven(20), {.loss = 3, .loss_bound = 2}}});
  const Table table = store.table("certificate");
  REQUIRE(table.rows.size() == 2);
  CHECK(value_in(table, 0, "recall_bound") == Value(0.6));
  CHECK(value_in(table, 0, "loss") == kNull);
  CHECK(value_in(table, 1, "gap") == Value(1.0));
  CHECK(value_in(table, 0, "run_id") == (has_run ? Value(std::string()) : kNull));
  CHECK(value_in(table, 1, "run_id") == store.table("run").rows[0][0]);
}

}  // namespace kvsim::certificate_rows_test
