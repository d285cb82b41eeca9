#include "sim/results/table_schema.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "sim/results/run.h"
#include "sim/results/store.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::test_support::table_schema_test {

TableSchema colours() {
  return {"colours",
          "a colour",
          "a paper, section 1",
          {text_column("name", "what it is called").key(), integer_column("number", "of it").key(),
           real_column("length", "of its wave, in nm")}};
}

TEST_CASE("store: a table comes back with its rows in the order of the key", "[store]") {
  const traces_test::TemporaryFolder folder;
  const TableSchema schema = colours();
  ResultStore store(folder.path() / "r.sqlite", ResultStore::Access::write);
  store.create(schema);
  store.replace(
      {{&schema, {{"red", std::int64_t{2}, 700.0}, {"red", std::int64_t{1}, std::monostate()}}}});
  const Table table = store.table("colours");
  CHECK(table.columns == std::vector<std::string>{"name", "number", "length", "run_id"});
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0] ==
        std::vector<Value>{"red", std::int64_t{1}, std::monostate(), std::monostate()});
  CHECK(table.rows[1] == std::vector<Value>{"red", std::int64_t{2}, 700.0, std::monostate()});
}

TEST_CASE("store: a row with a key that is there takes its place", "[store]") {
  const traces_test::TemporaryFolder folder;
  const TableSchema schema = colours();
  ResultStore store(folder.path() / "r.sqlite", ResultStore::Access::write);
  store.create(schema);
  store.create(schema);
  store.replace({{&schema, {{"red", std::int64_t{1}, 700.0}}}});
  store.replace({{&schema, {{"red", std::int64_t{1}, 650.0}}}});
  CHECK(store.table("colours").rows.size() == 1);
  CHECK(store.table("colours").rows[0][2] == Value(650.0));
}

TEST_CASE("store: tables are replaced together or not at all", "[store]") {
  const traces_test::TemporaryFolder folder;
  const TableSchema schema = colours();
  ResultStore store(folder.path() / "r.sqlite", ResultStore::Access::write);
  store.create(schema);
  // A key is never NULL.
  const TableRows good{&schema, {{"red", std::int64_t{1}, 700.0}}};
  const TableRows bad{&schema, {{"blue", std::monostate(), 450.0}}};
  CHECK_THROWS(store.replace({good, bad}));
  CHECK(store.table("colours").rows.empty());
}

TEST_CASE("store: the table about says what every column means", "[store]") {
  const traces_test::TemporaryFolder folder;
  ResultStore store(folder.path() / "r.sqlite", ResultStore::Access::write);
  store.create(colours());
  const Table about = store.table("about");
  REQUIRE(about.rows.size() == 5);
  CHECK(about.rows[0] == std::vector<Value>{"colours", "", "a colour", "a paper, section 1"});
  CHECK(about.rows[1] ==
        std::vector<Value>{"colours", "length", "of its wave, in nm", "a paper, section 1"});
}

TEST_CASE("store: rows of tables name their run, too", "[store]") {
  const traces_test::TemporaryFolder folder;
  const TableSchema schema = colours();
  ResultStore store(folder.path() / "r.sqlite", ResultStore::Access::write);
  store.create(schema);
  store.begin_run({.command = "kvsim analyze", .device = "cpu", .threads = 1});
  store.replace({{&schema, {{"red", std::int64_t{2}, 700.0}, {"red", std::int64_t{1}, 650.0}}}});
  CHECK(store.table("colours").rows[0].back() == store.table("run").rows[0].front());
  CHECK(store.table("run").rows[0][8] == Value(std::int64_t{2}));
}

TEST_CASE("store: a table of an earlier version gets columns for its provenance", "[store]") {
  const traces_test::TemporaryFolder folder;
  { const ResultStore empty(folder.path() / "r.sqlite", ResultStore::Access::write); }
  SQLite::Database(folder.path() / "r.sqlite", SQLite::OPEN_READWRITE)
      .exec(
          "CREATE TABLE colours (name TEXT NOT NULL, number INTEGER NOT NULL, length REAL, "
          "PRIMARY KEY (name, number)) WITHOUT ROWID; "
          "INSERT INTO colours VALUES ('red', 1, 700.0)");
  TableSchema schema = colours();
  schema.columns.push_back(text_column("label", "of the user"));
  schema.columns.push_back(text_column("policy_code", "of what sees it"));
  ResultStore store(folder.path() / "r.sqlite", ResultStore::Access::write);
  store.create(schema);
  store.replace({{&schema, {{"red", std::int64_t{2}, 650.0, "mine", "code"}}}});
  const Table table = store.table("colours");
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0][4] == Value(std::monostate()));
  CHECK(table.rows[1][3] == Value("mine"));
  CHECK(table.rows[1][4] == Value("code"));
}

TEST_CASE("store: a table of the same name with other columns is refused", "[store]") {
  const traces_test::TemporaryFolder folder;
  ResultStore store(folder.path() / "r.sqlite", ResultStore::Access::write);
  store.create(colours());
  TableSchema other = colours();
  other.columns.push_back(real_column("width", "in nm"));
  CHECK_THROWS_AS(store.create(other), DataError);
}

}  // namespace kvsim::test_support::table_schema_test
