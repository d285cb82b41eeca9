#include "sim/results/closed_loop_table.h"

#include <catch2/catch.hpp>
#include <set>

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

}  // namespace kvsim::test_support::closed_loop_table_test
