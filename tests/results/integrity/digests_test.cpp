// The table digest agrees with the rows, whatever has written them.

#include <catch2/catch.hpp>
#include <limits>

#include "sim/base/errors.h"
#include "sim/results/closed_loop_table.h"
#include "sim/results/integrity/check_results.h"
#include "sim/results/integrity/file_version.h"
#include "sim/results/merge/merge.h"
#include "tests/results/result_files.h"
#include "tests/support/unsynced_files.h"

namespace kvsim::results_test::digests_test {

using Catch::Contains;
using test_support::UnsyncedFiles;
using traces_test::TemporaryFolder;

/// Table, rows, units; -1 without digests.
using Counts = std::vector<std::tuple<std::string, std::int64_t, std::int64_t>>;

Counts checked(const std::filesystem::path& file) {
  Counts counts;
  for (const CheckedTable& table : check_results(file).tables) {
    counts.emplace_back(table.name, table.rows, table.has_digests ? table.units : -1);
  }
  return counts;
}

Result of_head(std::int64_t kv_head, const std::string& policy = "h2o") {
  Result result = row(policy);
  result.kv_head = kv_head;
  return result;
}

TEST_CASE("digests: every writer keeps them right", "[integrity]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto file = folder / "r.sqlite";
  {
    ResultStore store(file, Access::write);
    store.begin_run({.command = "kvsim sweep", .device = "cpu", .threads = 1});
    const Result oracle = of_head(0, "optimal");
    const SampledInterval sampled{"miss_rate", Interval{0.25, 0.5}};
    store.add({oracle, of_head(1)}, {{oracle, {.loss = 0.5, .loss_bound = 0.25}}},
              {{oracle, {.projected_error = 2.0, .num_layers = 1}}}, {{oracle, sampled}});
    // The same rows again, and others in place of them.
    Result other = oracle;
    other.attention_recall = 0.75;
    other.policy_code = "another";
    store.add({other});
    store.add({other, of_head(2)});
    Result labelled = other;
    labelled.label = "mine";
    CHECK(store.set_labels({labelled}) == 1);
    const TableSchema schema = closed_loop_schema();
    store.create(schema);
    std::vector<Value> values(schema.columns.size(), std::monostate());
    for (std::size_t i = 0; i < values.size(); ++i) {
      using Type = ColumnSchema::Type;
      if (schema.columns[i].type == Type::text) values[i] = "text";
      if (schema.columns[i].type == Type::integer) values[i] = std::int64_t{1};
      if (schema.columns[i].type == Type::real) values[i] = -0.0;
    }
    store.replace({{&schema, {values}}});
    store.replace({{&schema, {values}}});
    store.finish_run();
  }
  CHECK(checked(file) == Counts{{"about", 69, 3},
                                {"certificate", 0, 0},
                                {"closed_loop", 1, 1},
                                {"layer_error", 0, 0},
                                {"replay", 3, 3},
                                {"run", 1, 1},
                                {"sampled_interval", 1, 1}});
}

TEST_CASE("digests: a merge takes them over, and checks those of its parts", "[integrity]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto a = write(folder / "a.sqlite", {of_head(0), of_head(1)});
  const auto b = write(folder / "b.sqlite", {of_head(1), of_head(2)});
  merge_results({a, b}, folder / "all.sqlite");
  CHECK(checked(folder / "all.sqlite") == Counts{{"replay", 3, 3}});
  merge_results({a}, b);
  CHECK(checked(b) == Counts{{"replay", 3, 3}});

  edit(a, "UPDATE replay SET attention_recall = 0.25 WHERE kv_head = 0");
  CHECK_THROWS_WITH(merge_results({a}, folder / "new.sqlite"),
                    Contains(a.string() + ": table replay") && Contains("\"kv_head\":0}"));
}

TEST_CASE("digests: what other programs change is named", "[integrity]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto file = write(folder / "r.sqlite", {of_head(0), of_head(1)});
  const auto [sql, found] = GENERATE(Catch::Generators::table<std::string, std::string>({
      {"UPDATE replay SET cache_bytes = 1 WHERE kv_head = 1",
       "table replay, unit {\"trace_id\":\"id\",\"sequence\":\"text\",\"layer\":0,\"kv_head\":1}: "
       "rows: expected 1 row with digest "},
      {"DELETE FROM replay WHERE kv_head = 0", "expected 1 row with digest"},
      {"INSERT INTO replay SELECT trace_id, sequence, 9, kv_head, policy, budget, mode, seed, "
       "trace, "
       "budget_request, steps, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, device, "
       "kvsim_version, label, 0, policy_code, run_id FROM replay WHERE kv_head = 0",
       "rows: expected none, found 1 row with digest"},
      {"DROP VIEW regret; CREATE VIEW regret AS SELECT 1 AS regret",
       "regret: SQL: expected digest"},
      {"UPDATE digest SET digest = 'x' WHERE unit <> 'schema'", "expected 16 hexadecimal digits"},
      {"UPDATE digest SET table_name = 'replaz' WHERE unit <> 'schema'", "expected none, found"},
      {"DELETE FROM digest", "expected digests of the table replay, found none"},
  }));
  edit(file, sql);
  CHECK_THROWS_AS(check_results(file), DataError);
  CHECK_THROWS_WITH(check_results(file), Contains(file.string()) && Contains(found));
}

TEST_CASE("digests: a file of an earlier version gets them with the next row", "[integrity]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto file = write(folder / "r.sqlite", {of_head(0), of_head(1)});
  forget_digests(file);
  CHECK(check_results(file).format == 0);
  CHECK(checked(file) == Counts{{"replay", 2, -1}});
  CHECK(table(file, "replay").rows.size() == 2);
  write(file, {of_head(2)});
  CHECK(check_results(file).format == kFormatVersion);
  CHECK(checked(file) == Counts{{"replay", 3, 3}});
}

TEST_CASE("digests: the columns of an earlier version come without a change", "[integrity]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto file = write(folder / "r.sqlite", {of_head(0)});
  rewrite(file, "DROP VIEW regret; ALTER TABLE replay DROP COLUMN ties");
  const Table before = table(file, "digest");
  write(file, {of_head(0)});
  CHECK(checked(file) == Counts{{"replay", 1, 1}});
  CHECK(column(file, "digest", "digest").back() == before.rows.back().back());
}

TEST_CASE("digests: the table of another program has none until kvsim writes", "[integrity]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto file = write(folder / "r.sqlite", {of_head(0)});
  edit(file, "CREATE TABLE notes (text TEXT PRIMARY KEY); INSERT INTO notes VALUES ('a')");
  CHECK(checked(file) == Counts{{"notes", 1, -1}, {"replay", 1, 1}});
  write(file, {of_head(1)});
  CHECK(checked(file) == Counts{{"notes", 1, 1}, {"replay", 2, 2}});
}

TEST_CASE("digests: a row that fails leaves them as they were", "[integrity]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto file = write(folder / "r.sqlite", {of_head(0)});
  {
    ResultStore store(file, Access::write);
    CHECK_THROWS(store.add({of_head(1), row("h2o", std::numeric_limits<double>::quiet_NaN())}));
    store.add({of_head(2)});
  }
  CHECK(checked(file) == Counts{{"replay", 2, 2}});
}

}  // namespace kvsim::results_test::digests_test
