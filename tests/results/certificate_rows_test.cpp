#include <SQLiteCpp/SQLiteCpp.h>

#include <catch2/catch.hpp>

#include "sim/results/store.h"
#include "tests/support/temporary_folder.h"

namespace kvsim {
namespace {

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

TEST_CASE("a certificate names the run that proved it, also in a file of an earlier version",
          "[store]") {
  const TemporaryFolder folder;
  {
    ResultStore store(folder / "r.sqlite", Access::write);
    store.add({proven(10)}, {{proven(10), 0.6}});
  }
  SQLite::Database(folder / "r.sqlite", SQLite::OPEN_READWRITE)
      .exec("ALTER TABLE certificate DROP COLUMN run_id");
  ResultStore store(folder / "r.sqlite", Access::write);
  store.begin_run("kvsim sweep", "cpu", 1);
  store.add({proven(20)}, {{proven(20), 0.8}});
  const Table table = store.table("certificate");
  CHECK(table.columns.back() == "run_id");
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0].back() == Value(std::monostate()));
  CHECK(table.rows[1].back() == store.table("run").rows[0][0]);
}

}  // namespace
}  // namespace kvsim
