#include "sim/results/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <limits>

#include "sim/base/errors.h"
#include "sim/replay/replay.h"
#include "sim/replay/replay_checks.h"
#include "sim/results/run.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::store_test {

using namespace test_support;
using traces_test::TemporaryFolder;
using Access = ResultStore::Access;

// A row with a different value in every column.
Result distinct_result() {
  Result result;
  std::int64_t number = 100;
  for (const Column& column : result_columns()) {
    const Value type = column.get(result);
    ++number;
    if (std::holds_alternative<std::int64_t>(type)) column.set(result, number);
    if (std::holds_alternative<double>(type)) column.set(result, 1.0 / static_cast<double>(number));
    if (std::holds_alternative<std::string>(type)) {
      column.set(result, fmt::format("{} 'quoted\", \n\xc3\xa9", column.name));
    }
  }
  return result;
}

Result row(const std::string& policy, std::int64_t budget) {
  Result result;
  result.trace_id = std::string("id");
  result.sequence = std::string("text");
  result.policy = policy;
  result.budget = budget;
  result.mode = Protocol{.mode = Mode::stream}.name();
  return result;
}

TEST_CASE("a stored row comes back with every column", "[store]") {
  const TemporaryFolder folder;
  Result result = distinct_result();
  result.seed = std::numeric_limits<std::int64_t>::min();
  result.cache_bytes = std::numeric_limits<std::int64_t>::max();
  result.attention_loss = std::numeric_limits<double>::denorm_min();
  result.output_error_max = std::numeric_limits<double>::max();
  result.miss_rate = 1;  // an integer value in a real column
  ResultStore(folder / "r.sqlite", Access::write).add({result});
  const ResultStore store(folder / "r.sqlite", Access::read);
  const auto results = store.results(result.trace_id, result.mode, result.seed);
  REQUIRE(results.size() == 1);
  for (const Column& column : result_columns()) {
    CAPTURE(column.name);
    CHECK(column.get(results[0]) == column.get(result));
  }
}

TEST_CASE("a row takes the place of the one with its key, and of its certificate", "[store]") {
  const TemporaryFolder folder;
  ResultStore store(folder / "r.sqlite", Access::write);
  Result first = row("certificate", 10);
  first.attention_recall = 0.5;
  Result second = first;
  second.attention_recall = 0.75;
  store.add({first, row("h2o", 10)}, {{first, {.recall_bound = 0.6}}});
  CHECK(store.recall_bound(first) == 0.6);
  store.add({second, row("certificate", 20)}, {{second, {.recall_bound = 0.8}}});
  CHECK(store.recall_bound(first) == 0.8);
  const auto results = store.results("id", "stream", 0);
  REQUIRE(results.size() == 3);
  CHECK(results[0].attention_recall == 0.75);
  store.add({first});  // proves nothing any more
  CHECK_FALSE(store.recall_bound(first));
}

TEST_CASE("a row that is made again keeps its label unless it gets another", "[store]") {
  const TemporaryFolder folder;
  ResultStore store(folder / "r.sqlite", Access::write);
  const auto label = [&] { return store.unit_results(row("", 0)).front().label; };
  Result result = row("h2o", 10);
  result.label = "mine";
  store.add({result});
  store.add({row("h2o", 10)});
  CHECK(label() == "mine");
  result.label = "ours";
  store.add({result});
  CHECK(label() == "ours");
}

TEST_CASE("every row names the run that wrote it", "[store]") {
  const TemporaryFolder folder;
  ResultStore store(folder / "r.sqlite", Access::write);
  const auto run_of = [&](const std::string& policy) {
    for (const Result& result : store.unit_results(row("", 0))) {
      if (result.policy == policy) return result.run_id;
    }
    return std::string("none");
  };
  store.begin_run({.command = "kvsim sweep", .device = "cpu", .threads = 3});
  store.add({row("window", 1), row("h2o", 1)});
  const std::string first = run_of("h2o");
  store.begin_run({.command = "kvsim sweep --force", .device = "cpu", .threads = 3});
  store.add({row("h2o", 1)});
  CHECK(run_of("window") == first);
  CHECK(run_of("h2o") != first);
  const Table runs = store.table("run");
  CHECK(runs.columns == std::vector<std::string>{"run_id", "started", "seconds", "command",
                                                 "kvsim_version", "host", "device", "threads",
                                                 "rows_written", "shard", "study", "finished"});
  const auto rows_written = [&](std::size_t run) { return runs.rows[run][8]; };
  REQUIRE(runs.rows.size() == 2);
  const std::size_t place = runs.rows[0][0] == Value(first) ? 0 : 1;
  CHECK(runs.rows[place][3] == Value("kvsim sweep"));
  CHECK(rows_written(place) == Value(std::int64_t{2}));
  CHECK(rows_written(1 - place) == Value(std::int64_t{1}));
}

TEST_CASE("a run that fails stays in the table with the rows that it wrote", "[store]") {
  const TemporaryFolder folder;
  ResultStore store(folder / "r.sqlite", Access::write);
  store.begin_run({.command = "kvsim sweep", .device = "cpu", .threads = 1});
  CHECK(store.table("run").rows[0][8] == Value(std::int64_t{0}));
  store.add({row("window", 1)});
  Result wrong = row("h2o", 2);
  wrong.attention_recall = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS(store.add({row("h2o", 1), wrong}));
  CHECK(store.table("run").rows[0][8] == Value(std::int64_t{1}));
}

// A file as a version without columns for provenance wrote it.
void write_old_file(const std::filesystem::path& file) {
  {
    ResultStore store(file, Access::write);
    store.add({row("h2o", 1), row("h2o", 2)});
  }
  SQLite::Database database(file, SQLite::OPEN_READWRITE);
  database.exec("DROP VIEW regret");
  for (const char* column : {"label", "ties", "policy_code", "run_id"}) {
    database.exec(fmt::format("ALTER TABLE replay DROP COLUMN {}", column));
  }
}

TEST_CASE("a file of an earlier version is read as it is", "[store]") {
  const TemporaryFolder folder;
  write_old_file(folder / "r.sqlite");
  const ResultStore store(folder / "r.sqlite", Access::read);
  CHECK(store.table("replay").columns.back() == "kvsim_version");
  const auto results = store.results("id", "stream", 0);
  REQUIRE(results.size() == 2);
  CHECK(results[1].budget == 2);
  CHECK(results[1].policy_code.empty());
}

TEST_CASE("a file of an earlier version gets the columns that it lacks", "[store]") {
  const TemporaryFolder folder;
  write_old_file(folder / "r.sqlite");
  ResultStore store(folder / "r.sqlite", Access::write);
  CHECK(store.finished(row("", 0)).at({"h2o", 2}).empty());
  Result fresh = row("h2o", 2);
  fresh.policy_code = "code";
  store.add({fresh});
  const Table table = store.table("replay");
  CHECK(table.columns == to_table(std::vector{fresh}).columns);
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0].end()[-2] == Value(std::monostate()));
  CHECK(table.rows[1].end()[-2] == Value("code"));
  CHECK(store.results("id", "stream", 0).size() == 2);
}

TEST_CASE("a label is given and changed without touching the rest of the row", "[store]") {
  const TemporaryFolder folder;
  ResultStore store(folder / "r.sqlite", Access::write);
  store.add({row("h2o", 10), row("h2o", 20)});
  const auto labels = [&] {
    std::vector<std::string> found;
    for (const Result& result : store.results("id", "stream", 0)) {
      found.push_back(result.label.value_or("none"));
    }
    return found;
  };
  CHECK(labels() == std::vector<std::string>{"none", "none"});
  Result labelled = row("h2o", 20);
  labelled.label = "mine";
  labelled.attention_recall = 0.125;  // of a label's row only the key counts
  store.set_labels({labelled});
  CHECK(labels() == std::vector<std::string>{"none", "mine"});
  CHECK(store.results("id", "stream", 0)[1].attention_recall == row("h2o", 20).attention_recall);
  labelled.label = "yours";
  store.set_labels({labelled, row("h2o", 20), row("h2o", 30)});
  CHECK(labels() == std::vector<std::string>{"none", "yours"});
}

TEST_CASE("rows that differ in any key column are all stored", "[store]") {
  const TemporaryFolder folder;
  ResultStore store(folder / "r.sqlite", Access::write);
  const Result base = distinct_result();
  std::vector<Result> rows = {base};
  for (const Column& column : result_columns().first(kKeyColumns)) {
    Result other = base;
    const Value value = column.get(base);
    if (const auto* number = std::get_if<std::int64_t>(&value)) column.set(other, *number + 1);
    if (std::holds_alternative<std::string>(value)) column.set(other, std::string("other"));
    rows.push_back(other);
  }
  store.add(rows);
  CHECK(store.table("replay").rows.size() == 1 + kKeyColumns);
  // finished() is per unit: of the key's columns only policy and budget differ in its rows.
  CHECK(store.finished(base) == std::map<std::pair<std::string, std::int64_t>, std::string>{
                                    {{base.policy, base.budget}, base.policy_code},
                                    {{"other", base.budget}, base.policy_code},
                                    {{base.policy, base.budget + 1}, base.policy_code}});
}

TEST_CASE("all rows of an addition are stored or none", "[store]") {
  const TemporaryFolder folder;
  ResultStore store(folder / "r.sqlite", Access::write);
  store.add({row("window", 1)});
  Result wrong = row("h2o", 2);
  wrong.attention_recall = std::numeric_limits<double>::quiet_NaN();  // SQLite has no such number
  CHECK_THROWS_AS(store.add({row("h2o", 1), wrong, row("h2o", 3)}), std::runtime_error);
  CHECK(store.results("id", "stream", 0).size() == 1);
  store.add({row("h2o", 1), row("h2o", 3)});
  CHECK(store.results("id", "stream", 0).size() == 3);
}

TEST_CASE("rows come ordered by key", "[store]") {
  const TemporaryFolder folder;
  ResultStore store(folder / "r.sqlite", Access::write);
  store.add({row("window", 9), row("h2o", 100), row("h2o", 20)});
  const auto results = store.results("id", "stream", 0);
  REQUIRE(results.size() == 3);
  CHECK((results[0].policy == "h2o" && results[0].budget == 20));
  CHECK((results[1].policy == "h2o" && results[1].budget == 100));
  CHECK(results[2].policy == "window");
  CHECK(store.policies() == std::vector<std::string>{"h2o", "window"});
  CHECK(store.policy_results("h2o").size() == 2);
  const Table table = store.table("replay");
  CHECK(table.columns == to_table(results).columns);
  CHECK(table.rows == to_table(results).rows);
}

TEST_CASE("two programs may write to the same file", "[store]") {
  const TemporaryFolder folder;
  ResultStore one(folder / "r.sqlite", Access::write);
  ResultStore two(folder / "r.sqlite", Access::write);
  one.add({row("h2o", 1)});
  two.add({row("h2o", 2), row("h2o", 1)});
  one.add({row("h2o", 3)});
  CHECK(one.finished(row("", 0)).size() == 3);
  CHECK(two.finished(row("", 0)).size() == 3);
}

TEST_CASE("a file that is no database is refused and left alone", "[store]") {
  const TemporaryFolder folder;
  const std::string text(5000, 'x');
  std::ofstream(folder / "r.txt") << text;
  const Access access = GENERATE(Access::read, Access::write);
  CHECK_THROWS_AS(ResultStore(folder / "r.txt", access), DataError);
  CHECK_THROWS_WITH(ResultStore(folder / "r.txt", access), Catch::Contains("r.txt"));
  std::string after;
  std::getline(std::ifstream(folder / "r.txt"), after);
  CHECK(after == text);
}

TEST_CASE("a database whose table replay is another one is refused", "[store]") {
  const TemporaryFolder folder;
  SQLite::Database(folder / "r.sqlite", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE replay (film TEXT)");
  const Access access = GENERATE(Access::read, Access::write);
  CHECK_THROWS_AS(ResultStore(folder / "r.sqlite", access), DataError);
}

TEST_CASE("reading a file that is not there fails and creates none", "[store]") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(ResultStore(folder / "none.sqlite", Access::read), DataError);
  CHECK_FALSE(std::filesystem::exists(folder / "none.sqlite"));
}

TEST_CASE("writing where no file can be fails", "[store]") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(ResultStore(folder / "none/r.sqlite", Access::write),
                    Catch::Contains("r.sqlite"));
}

TEST_CASE("an unknown table is refused with one that is there", "[store]") {
  const TemporaryFolder folder;
  const ResultStore store(folder / "r.sqlite", Access::write);
  CHECK(store.table("replay").rows.empty());
  CHECK_THROWS_AS(store.table("replays"), UsageError);
  CHECK_THROWS_WITH(store.table("replays"), Catch::Contains("'replay'"));
}

}  // namespace kvsim::store_test
