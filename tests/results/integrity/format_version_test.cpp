// Whose file it is, and of which version.

#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "sim/results/integrity/check_results.h"
#include "sim/results/integrity/file_version.h"
#include "tests/results/result_files.h"

namespace kvsim::results_test::format_version_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

TEST_CASE("result files say that they are ours, and their version", "[integrity]") {
  const TemporaryFolder folder;
  const auto file = write(folder / "r.sqlite", {row("h2o")});
  SQLite::Database connection(file);
  CHECK(connection.execAndGet("PRAGMA application_id").getInt() == kApplicationId);
  CHECK(connection.execAndGet("PRAGMA user_version").getInt() == kFormatVersion);
  CHECK(is_result_file(file));
  CHECK(bytes(file).substr(68, 4) == "kvsm");
}

TEST_CASE("files of others and of newer versions are refused by name", "[integrity]") {
  const TemporaryFolder folder;
  const auto file = write(folder / "r.sqlite", {row("h2o")});
  const auto [sql, found] = GENERATE(Catch::Generators::table<std::string, std::string>({
      {"PRAGMA application_id = 252006674", "the SQLite file of another application"},
      {"PRAGMA application_id = 0", "the SQLite file of another application"},
      {"PRAGMA user_version = 2", "found format 2; use a newer kvsim"},
      {"PRAGMA user_version = 0", "found format 0: the file is damaged"},
  }));
  edit(file, sql);
  const std::string before = bytes(file);
  for (const Access access : {Access::read, Access::write}) {
    CHECK_THROWS_AS(ResultStore(file, access), DataError);
    CHECK_THROWS_WITH(ResultStore(file, access), Contains(file.string()) && Contains(found));
  }
  CHECK_THROWS_WITH(check_results(file), Contains(found));
  CHECK(bytes(file) == before);
}

TEST_CASE("nothing is written to a SQLite file with other tables", "[integrity]") {
  const TemporaryFolder folder;
  const auto file = folder / "people.sqlite";
  SQLite::Database(file, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE people (name TEXT PRIMARY KEY)");
  const std::string before = bytes(file);
  CHECK_THROWS_WITH(ResultStore(file, Access::write), Contains("with the table people"));
  CHECK(bytes(file) == before);
}

TEST_CASE("a table with another key is named, with the way out", "[integrity]") {
  const TemporaryFolder folder;
  const auto file = folder / "r.sqlite";
  SQLite::Database(file, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE replay (trace_id TEXT, layer INTEGER, PRIMARY KEY (trace_id, layer))");
  for (const Access access : {Access::read, Access::write}) {
    CHECK_THROWS_WITH(ResultStore(file, access), Contains("found the key (trace_id, layer)") &&
                                                     Contains("make the rows again in a new file"));
  }
}

}  // namespace kvsim::results_test::format_version_test
