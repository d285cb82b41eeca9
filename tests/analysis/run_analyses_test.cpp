#include "analysis/run_analyses.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "analysis/unit_table.h"
#include "sim/base/errors.h"
#include "tests/support/small_trace.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "traces/synth/synth.h"

namespace kvsim::analysis_test::run_analyses_test {

using traces_test::TemporaryFolder;

/// A trace without token_ids and what analyses need on it.
SweepRequest request_on(const TemporaryFolder& folder, std::string_view policies = "") {
  const auto trace = folder.path() / "trace.h5";
  if (!std::filesystem::exists(trace)) test_support::write_random_trace(trace, 4);
  if (policies.empty()) return {.traces = {trace}};
  return test_support::request(trace, policies, {"20%"});
}

using Tables = std::map<std::string, std::set<std::vector<Value>>>;

Tables tables_of(AnalysisPlan plan) {
  const std::atomic<bool> interrupted = false;
  Tables tables;
  run_analyses(plan, *make_cpu_backend(), interrupted,
               [&](const PlannedUnit&, const std::vector<TableRows>& found) {
                 for (const TableRows& table : found) {
                   tables[table.schema->name].insert(table.rows.begin(), table.rows.end());
                 }
               });
  return tables;
}

TEST_CASE("analysis: rows name the trace, the query head and what made them", "[analysis]") {
  const TemporaryFolder folder;
  const Tables tables =
      tables_of(plan_analyses(parse_analyses("sparsity"), request_on(folder), false));
  const auto& rows = tables.at("sparsity");
  CHECK(rows.size() == test_support::kUnits * 2);
  std::set<std::int64_t> heads;
  for (const std::vector<Value>& row : rows) {
    const auto query_head = std::get<std::int64_t>(row[3]);
    heads.insert(query_head);
    CHECK(std::get<std::int64_t>(row[5]) == query_head / 2);  // kv_head, after the threshold
    CHECK(std::get<std::string>(row[row.size() - 2]).ends_with("trace.h5"));
  }
  CHECK(heads == std::set<std::int64_t>{0, 1, 2, 3});
}

TEST_CASE("analysis: the table unit says how large the analysed heads are", "[analysis]") {
  const TemporaryFolder folder;
  const Tables tables =
      tables_of(plan_analyses(parse_analyses("sparsity"), request_on(folder), false));
  CHECK(tables.at("unit").size() == test_support::kUnits);
  const TableSchema schema = unit_schema();
  for (const std::vector<Value>& row : tables.at("unit")) {
    REQUIRE(row.size() == schema.columns.size());
    const bool is_long = std::get<std::string>(row[1]) == "a";
    CHECK(row[4] == Value(std::int64_t{is_long ? test_support::kLongSequence
                                               : test_support::kShortSequence}));
    CHECK(row[6] == Value(std::int64_t{2}));
    CHECK(row[8] == Value(std::int64_t{3}));
  }
}

/// Without the many samples that a p-value takes.
constexpr const char* kPowerLaw = "power-law:sample=500,bootstrap=10";

std::vector<AnalysisSpec> every_analysis() {
  std::vector<AnalysisSpec> specs = parse_analyses("all");
  for (AnalysisSpec& spec : specs) {
    if (spec.info->name == "power-law") spec = parse_analyses(kPowerLaw).front();
  }
  return specs;
}

TEST_CASE("analysis: rows do not depend on threads or on what else is asked for", "[analysis]") {
  const TemporaryFolder folder;
  SweepRequest request = request_on(folder, "h2o;tova:scope=layer;spatten;random");
  request.threads = 1;
  const Tables one = tables_of(plan_analyses(every_analysis(), request, true));
  request.threads = 3;
  CHECK(tables_of(plan_analyses(every_analysis(), request, true)) == one);
  for (const char* name : {"anatomy", "overlap", kPowerLaw}) {
    const Tables alone = tables_of(plan_analyses(parse_analyses(name), request, false));
    REQUIRE(alone.size() == 2);  // and the units
    for (const auto& [table, rows] : alone) CHECK(rows == one.at(table));
  }
}

TEST_CASE("analysis: a selection gives the rows that the whole has of it", "[analysis]") {
  const TemporaryFolder folder;
  SweepRequest request = request_on(folder, "tova:scope=layer");
  const Tables all = tables_of(plan_analyses(parse_analyses("anatomy"), request, false));
  request.selection.sequences = {"b"};
  request.selection.kv_heads = {1};
  const Tables some = tables_of(plan_analyses(parse_analyses("anatomy"), request, false));
  CHECK(some.at("anatomy").size() == 4);
  for (const std::vector<Value>& row : some.at("anatomy")) CHECK(all.at("anatomy").contains(row));
}

TEST_CASE("analysis: what cannot be done is refused, or left out of all", "[analysis]") {
  const TemporaryFolder folder;
  const SweepRequest none = request_on(folder);
  using Catch::Contains;
  CHECK_THROWS_WITH(plan_analyses(parse_analyses("anatomy"), none, false), Contains("--policies"));
  CHECK_THROWS_AS(plan_analyses(parse_analyses("subgen-bound"), request_on(folder, "h2o"), false),
                  UsageError);
  CHECK_THROWS_WITH(plan_analyses(parse_analyses("vocabulary"), none, false),
                    Contains("/sequences/a/token_ids"));
  CHECK_THROWS_AS(plan_analyses(parse_analyses("vocabulary"), none, false), DataError);
  const AnalysisPlan plan = plan_analyses(parse_analyses("all"), none, true);
  CHECK(plan.analyses.size() < analyses().size());
  for (const AnalysisSpec& spec : plan.analyses) {
    CHECK(spec.info->accepts == nullptr);
    CHECK_FALSE(spec.info->needs_dataset(Dataset::token_ids));
    CHECK_FALSE(spec.info->needs_spans);
  }
  CHECK(plan.left_out.size() == analyses().size() - plan.analyses.size());
  CHECK_THROWS_WITH(plan_analyses(parse_analyses("overlap"), request_on(folder, "h2o"), false),
                    Contains("expected 2 policies"));
}

TEST_CASE("analysis: span-retention refuses a text that asks for nothing", "[analysis]") {
  const TemporaryFolder folder;
  using Catch::Contains;
  SweepRequest request = request_on(folder, "window");
  request.traces = {folder / "small.h5"};
  const auto write = [&](const std::vector<Span>& spans) {
    traces_test::write_small_trace(folder / "small.h5", traces_test::small_header(),
                                   ElementType::float16, spans);
  };
  const auto plan = [&] { plan_analyses(parse_analyses("span-retention"), request, false); };
  write({});
  CHECK_THROWS_WITH(plan(), Contains("/sequences/a/spans") && Contains("labelled needle"));
  CHECK_THROWS_AS(plan(), DataError);
  write({{0, 1, "needle"}});
  CHECK_THROWS_WITH(plan(), Contains("labelled answer that a measured step predicts"));
  write({{0, 1, "needle"}, {2, 3, "answer"}});
  CHECK_NOTHROW(plan());
  request.protocol.mode = Mode::prefill;  // its prompt ends where the answer begins
  CHECK_THROWS_WITH(plan(), Contains("labelled answer that a measured step predicts"));
}

TEST_CASE("analysis: span-retention sees what a policy selects", "[analysis]") {
  SweepRequest request = test_support::request(
      std::filesystem::path(KVSIM_SOURCE_DIR) / "traces/sample/tiny-retriever.h5", "topk;window",
      {"20%"});
  request.selection.layers = {2};
  const Tables tables = tables_of(plan_analyses(parse_analyses("span-retention"), request, false));
  std::map<std::string, double> shares;  // of answer tokens, summed over heads
  for (const std::vector<Value>& row : tables.at("span_retention")) {
    if (row[8] != Value("answer")) continue;
    shares[std::get<std::string>(row[4])] += std::get<double>(row[14]);
  }
  CHECK(shares.at("topk:h2=0") > 8 * shares.at("window"));
}

/// Two layers, of two KV heads with two query heads each.
SweepRequest request_with_mlp(const TemporaryFolder& folder, int mlp_width = 16) {
  SynthOptions options;
  options.tokens = 50;
  options.head_dim = 4;
  options.mlp_width = mlp_width;
  const auto trace = folder.path() / "trace.h5";
  synthesize(trace, options);
  return {.traces = {trace}};
}

TEST_CASE("analysis: what is of a layer stands once, at its first query head", "[analysis]") {
  const TemporaryFolder folder;
  const Tables tables = tables_of(
      plan_analyses(parse_analyses("mlp-heavy-hitters,sparsity"), request_with_mlp(folder), false));
  CHECK(tables.at("sparsity").size() == 8);
  const auto& rows = tables.at("mlp_heavy_hitters");
  CHECK(rows.size() == 2 * 16);
  for (const std::vector<Value>& row : rows) CHECK(row[3] == Value(std::int64_t{0}));
}

TEST_CASE("analysis: a layer without what its MLP gave is refused, or left out of all",
          "[analysis]") {
  const TemporaryFolder folder;
  SweepRequest request = request_with_mlp(folder, 0);
  using Catch::Contains;
  CHECK_THROWS_WITH(
      plan_analyses(parse_analyses("mlp-heavy-hitters"), request, false),
      Contains("trace.h5: /sequences/synthetic/layers/0/mlp_activation: expected") &&
          Contains("record the trace with --also mlp_activation, or leave the analysis out"));
  for (const AnalysisSpec& spec : plan_analyses(parse_analyses("all"), request, true).analyses) {
    CHECK_FALSE(spec.info->needs_dataset(Dataset::mlp_activation));
  }
  request = request_with_mlp(folder);
  request.selection.kv_heads = {1};
  CHECK_THROWS_WITH(plan_analyses(parse_analyses("mlp-concentration"), request, false),
                    Contains("layer 0 of sequence synthetic has its row at KV head 0; expected it "
                             "among --heads"));
}

TEST_CASE("analysis: an interruption ends the work after what is finished", "[analysis]") {
  const TemporaryFolder folder;
  AnalysisPlan plan = plan_analyses(parse_analyses("sparsity"), request_on(folder), false);
  std::atomic<bool> interrupted = false;
  int finished = 0;
  CHECK_THROWS_AS(run_analyses(plan, *make_cpu_backend(), interrupted,
                               [&](const PlannedUnit&, const std::vector<TableRows>&) {
                                 ++finished;
                                 interrupted = true;
                               }),
                  Interrupted);
  CHECK(finished == 1);
}

}  // namespace kvsim::analysis_test::run_analyses_test
