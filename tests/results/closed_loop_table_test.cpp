#include "sim/results/closed_loop_table.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "sim/results/integrity/check_results.h"
#include "sim/results/store.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::test_support::closed_loop_table_test {

std::vector<Value> row(const std::string& policy, const std::string& loop, double kl) {
  std::vector<Value> values(closed_loop_schema().columns.size(), std::monostate());
  const std::vector<Value> key = {"m",      "text", policy,         std::int64_t{51},
                                  "stream", loop,   std::int64_t{0}};
  std::copy(key.begin(), key.end(), values.begin());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (closed_loop_schema().columns[i].name == "kl_mean") values[i] = kl;
  }
  return values;
}

TEST_CASE("closed_loop: the columns stand in the order of the contract", "[store]") {
  std::vector<std::string> key;
  std::vector<std::string> rest;
  for (const ColumnSchema& column : closed_loop_schema().columns) {
    (column.is_key ? key : rest).push_back(column.name);
  }
  CHECK(key == std::vector<std::string>{"model_id", "sequence", "policy", "budget", "mode", "loop",
                                        "seed"});
  CHECK(rest == std::vector<std::string>{"trace_id",
                                         "text_id",
                                         "model",
                                         "budget_request",
                                         "label",
                                         "steps",
                                         "nll_full",
                                         "nll",
                                         "delta_nll",
                                         "kl_mean",
                                         "top1_agreement",
                                         "answers",
                                         "answers_right_full",
                                         "answers_right",
                                         "kept_overlap",
                                         "peak_tokens",
                                         "cache_bytes",
                                         "prompt_length",
                                         "spans_id",
                                         "device",
                                         "kvsim_version",
                                         "policy_code"});
}

TEST_CASE("closed_loop: its parts have its key, and columns that SQL lets pass", "[store]") {
  const auto names_of = [](const TableSchema& schema, bool is_key) {
    std::vector<std::string> names;
    for (const ColumnSchema& column : schema.columns) {
      if (column.is_key == is_key) names.push_back(column.name);
    }
    return names;
  };
  std::vector<std::string> key = names_of(closed_loop_schema(), true);
  CHECK(names_of(closed_loop_step_schema(), true) == key);
  key.emplace_back("kind");
  CHECK(names_of(closed_loop_kind_schema(), true) == key);
  CHECK(names_of(closed_loop_kind_schema(), false) ==
        std::vector<std::string>{"tokens", "nll_full", "nll", "delta_nll", "kl_mean",
                                 "top1_agreement", "tokens_right_full", "tokens_right",
                                 "policy_code"});
  CHECK(names_of(closed_loop_step_schema(), false) ==
        std::vector<std::string>{"first_step", "kl", "nll_full", "nll", "spans", "policy_code"});
  for (const TableSchema& schema : {closed_loop_kind_schema(), closed_loop_step_schema()}) {
    for (const ColumnSchema& column : schema.columns) {
      INFO(column.name);
      CHECK(!is_sql_word(column.name));
      CHECK(!column.meaning.empty());
    }
  }
}

TEST_CASE("closed_loop: every column has a meaning and a name that SQL lets pass", "[store]") {
  const TableSchema schema = closed_loop_schema();
  CHECK(!schema.shows.empty());
  CHECK(!schema.source.empty());
  std::set<std::string> meanings;
  for (const ColumnSchema& column : schema.columns) {
    INFO(column.name);
    CHECK(!is_sql_word(column.name));
    CHECK(meanings.insert(column.meaning).second);
  }
  CHECK(meanings.count("") == 0);
}

TEST_CASE("closed_loop: a row of the other loop is added, one of the same loop replaces",
          "[store]") {
  const traces_test::TemporaryFolder folder;
  const TableSchema schema = closed_loop_schema();
  ResultStore store(folder.path() / "r.sqlite", ResultStore::Access::write);
  store.create(schema);
  store.replace({{&schema, {row("tova", "imposed", 0.5), row("tova", "adaptive", 0.4)}}});
  store.replace({{&schema, {row("tova", "imposed", 0.25)}}});
  const Table table = store.table("closed_loop");
  REQUIRE(table.rows.size() == 2);
  const std::size_t loop = 5;
  const std::size_t kl = 16;
  CHECK(table.columns[kl] == "kl_mean");
  CHECK(table.rows[0][loop] == Value("adaptive"));
  CHECK(table.rows[0][kl] == Value(0.4));
  CHECK(table.rows[1][kl] == Value(0.25));
}

TEST_CASE("closed_loop: a row that is replaced takes its parts along, and no others", "[store]") {
  const traces_test::TemporaryFolder folder;
  const auto file = folder.path() / "r.sqlite";
  const TableSchema schema = closed_loop_schema();
  const TableSchema kind_schema = closed_loop_kind_schema();
  const TableSchema step_schema = closed_loop_step_schema();
  const auto part = [](const TableSchema& of, const std::string& policy, const Value& next) {
    std::vector<Value> values = row(policy, "imposed", 0);
    values.resize(7);  // the key
    values.push_back(next);
    values.resize(of.columns.size(), std::monostate());
    return values;
  };
  {
    ResultStore store(file, ResultStore::Access::write);
    for (const TableSchema* each : {&schema, &kind_schema}) store.create(*each);
    // Parts of a table that the file lacks are none.
    const std::vector<const TableSchema*> parts{&kind_schema, &step_schema};
    store.replace({{&schema, {row("tova", "imposed", 0.5), row("h2o", "imposed", 0.5)}, parts},
                   {&kind_schema,
                    {part(kind_schema, "tova", "text"), part(kind_schema, "tova", "needle"),
                     part(kind_schema, "h2o", "needle")}}});
    store.create(step_schema);
    store.replace({{&step_schema,
                    {part(step_schema, "tova", std::int64_t{0}),
                     part(step_schema, "h2o", std::int64_t{0})}}});
    store.replace({{&schema, {row("tova", "imposed", 0.25)}, parts},
                   {&kind_schema, {part(kind_schema, "tova", "answer")}}});
  }
  const ResultStore store(file, ResultStore::Access::read);
  const Table kinds = store.table("closed_loop_kind");
  REQUIRE(kinds.rows.size() == 2);
  CHECK(kinds.rows[0][7] == Value("needle"));
  CHECK(kinds.rows[1][7] == Value("answer"));
  const Table steps = store.table("closed_loop_step");
  REQUIRE(steps.rows.size() == 1);
  CHECK(steps.rows[0][2] == Value("h2o"));
  std::vector<std::string> checked;
  for (const CheckedTable& table : check_results(file).tables) {
    CHECK(table.has_digests);
    checked.push_back(table.name);
  }
  CHECK(std::ranges::count(checked, "closed_loop_step") == 1);
}

}  // namespace kvsim::test_support::closed_loop_table_test
