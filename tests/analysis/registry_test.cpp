// The registry is the matrix: what holds of one analysis holds of all.

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "oracle/oracles.h"
#include "sim/base/errors.h"
#include "sim/results/result_tables.h"
#include "tests/analysis/analysed.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::registry_test {

Unit subject(int tokens = 96) {
  Unit unit = test_support::random_unit(
      {.tokens = tokens, .head_dim = 2, .value_dim = 3, .group = 2, .gradient_samples = 1}, 8);
  for (int j = 0; j < tokens; ++j) unit.token_ids.push_back(j * j % 11);
  unit.spans = {{2, 4, "needle"}, {13, 14, "question"}, {14, 15, "answer"}};
  return unit;
}

std::vector<PolicyRun> runs_on(const Unit& unit) {
  const int budget = unit.num_tokens() / 2;
  return {run_of("h2o", budget, unit), run_of("window", budget, unit),
          run_of("subgen:delta=1", budget, unit)};
}

/// Another value for every parameter that an analysis has, by analysis and parameter.
const std::map<std::string, std::string> kOther = {
    {"persistence split", "0.3"},
    {"persistence threshold", "2/t"},
    {"persistence-curve points", "4"},
    {"persistence-curve threshold", "0.1"},
    {"attention-maps positions", "20/90"},
    {"repetition positions", "2"},
    {"sparsity threshold", "0.3"},
    {"good-distribution alpha", "1"},
    {"good-distribution tau", "0.05"},
    {"good-distribution start", "60"},
    {"good-distribution most", "2"},
    {"vocabulary window", "2"},
    {"power-law sample", "200"},
    {"power-law bootstrap", "20"},
    {"mlp-heavy-hitters threshold", "1"},
    {"mlp-concentration threshold", "1"},
    {"mlp-concentration heavy", "0.5"},
    {"mlp-concentration bootstrap", "20"},
    {"scissorhands-bound epsilon", "0.1"},
    {"scissorhands-bound start", "12"},
    {"scissorhands-bound sample", "30"},
    {"scissorhands-bound bootstrap", "21"},
    {"submodularity steps", "3"},
    {"submodularity samples", "20"},
    {"submodularity score", "step"},
    {"h2o-bound function", "approximate"},
    {"h2o-bound score", "step"},
    {"h2o-bound h", "sqrt"},
    {"subgen-bound epsilon", "0.1"},
    {"subgen-bound constant", "1"},
    {"clusters most", "5"},
    {"cluster-growth delta", "0.2r"},
    {"score-change bins", "7"},
    {"overlap intervals", "3"},
    {"fragmentation sizes", "2/7"},
    {"predicted-kl-steps intervals", "3"},
    {"regression steps", "3"},
    {"regression l", "10"},
    {"regression weight", "100"},
    {"regression epsilon1", "0.9"},
};

/// What the rows hold in addition to their keys.
std::vector<std::vector<Value>> findings(const AnalysisInfo& info, const std::vector<Row>& rows) {
  std::vector<std::vector<Value>> findings;
  for (const Row& row : rows) {
    std::vector<Value>& values = findings.emplace_back();
    for (const ColumnSchema& column : info.columns) {
      if (!column.is_key) values.push_back(row.at(column.name));
    }
  }
  return findings;
}

TEST_CASE("analysis: every table says what it holds, by which key and from where", "[analysis]") {
  for (const AnalysisInfo* info : analyses()) {
    INFO(info->name);
    CHECK_FALSE(info->shows.empty());
    CHECK_FALSE(info->source.empty());
    const TableSchema schema = schema_of(*info);
    std::set<std::string> names;
    for (const ColumnSchema& column : schema.columns) {
      INFO(column.name);
      CHECK(names.insert(column.name).second);
      CHECK_FALSE(column.meaning.empty());
    }
    CHECK(std::is_partitioned(schema.columns.begin(), schema.columns.end(),
                              [](const ColumnSchema& column) { return column.is_key; }));
    for (const std::string& column : info->summary) CHECK(names.contains(column));
    for (const std::string& column : info->summary_by) CHECK(names.contains(column));
    CHECK_FALSE(info->summary.empty());
  }
}

TEST_CASE("analysis: none takes the name of a table of the program", "[analysis]") {
  std::vector<std::string> names{"all", "unit", "digest", "sampled_interval"};
  for (const auto* schemas : {&result_tables(), &result_views()}) {
    for (const TableSchema& schema : *schemas) names.push_back(schema.name);
  }
  AnalysisInfo info = *analyses().front();
  info.origin = "a plug-in";
  for (const std::string& name : names) {
    INFO(name);
    info.name = name;
    CHECK_THROWS_WITH(register_analysis(info), Catch::Contains("has this name"));
  }
}

TEST_CASE("analysis: every analysis finds rows with keys of their own", "[analysis]") {
  const Unit unit = subject();
  const std::vector<PolicyRun> runs = runs_on(unit);
  for (const AnalysisInfo* info : analyses()) {
    INFO(info->name);
    const std::vector<Row> rows = analyse(info->name, unit, runs);
    CHECK_FALSE(rows.empty());
    std::set<std::vector<Value>> keys;
    for (const Row& row : rows) {
      std::vector<Value> key{std::int64_t{row.head}};
      for (const ColumnSchema& column : info->columns) {
        const Value& value = row.at(column.name);
        const auto* number = std::get_if<double>(&value);
        if (number != nullptr) CHECK(std::isfinite(*number));
        if (!column.is_key) continue;
        key.push_back(value);
        CHECK_FALSE(std::holds_alternative<std::monostate>(value));
      }
      CHECK(keys.insert(key).second);
    }
  }
}

TEST_CASE("analysis: every parameter moves what is found", "[analysis]") {
  std::size_t moved = 0;
  for (const AnalysisInfo* info : analyses()) {
    // Few scores, so that no p-value is 0 whatever the bootstrap.
    const Unit unit = info->name == "scissorhands-bound" ? subject(16) : subject();
    const std::vector<PolicyRun> runs = runs_on(unit);
    const auto initial = findings(*info, analyse(info->name, unit, runs));
    for (const Param& param : info->params) {
      const std::string knob = info->name + ' ' + param.name;
      INFO(knob);
      REQUIRE(kOther.contains(knob));
      const std::string spec = info->name + ':' + param.name + '=' + kOther.at(knob);
      CHECK(findings(*info, analyse(spec, unit, runs)) != initial);
      ++moved;
    }
  }
  CHECK(moved == kOther.size());
}

TEST_CASE("analysis: the same seed gives the same rows, another one other samples", "[analysis]") {
  const Unit unit = subject(48);
  const std::vector<PolicyRun> runs = runs_on(unit);
  for (const AnalysisInfo* info : analyses()) {
    INFO(info->name);
    const auto first = findings(*info, analyse(info->name, unit, runs));
    CHECK(findings(*info, analyse(info->name, unit, runs)) == first);
  }
  const auto sample = [&](std::int64_t seed) {
    const std::vector<Row> rows = analyse("power-law:sample=50", unit, {}, Mode::stream, seed);
    return rows.at(3).at("exponent");
  };
  CHECK(sample(1) != sample(2));
}

TEST_CASE("analysis: texts of one, two and three tokens are analysed", "[analysis]") {
  for (const int tokens : {1, 2, 3}) {
    Unit unit =
        test_support::random_unit({.tokens = tokens, .head_dim = 2, .gradient_samples = 1}, 4);
    unit.token_ids.assign(static_cast<std::size_t>(tokens), 7);
    const std::vector<PolicyRun> runs{run_of("h2o", 1, unit), run_of("window", 1, unit),
                                      run_of("subgen", 3, unit)};
    for (const AnalysisInfo* info : analyses()) {
      INFO(info->name << " of " << tokens);
      for (const Row& row : analyse(info->name, unit, runs)) {
        for (const auto& [column, value] : row.values) {
          INFO(column);
          const auto* number = std::get_if<double>(&value);
          if (number != nullptr) CHECK(std::isfinite(*number));
        }
      }
    }
  }
}

TEST_CASE("analysis: lists of specs are split at commas and semicolons", "[analysis]") {
  const auto texts = [](std::string_view list) {
    std::vector<std::string> found;
    for (const AnalysisSpec& spec : parse_analyses(list)) {
      found.push_back(spec.info->name + ' ' + spec.params.text());
    }
    return found;
  };
  const std::vector<std::string> two{"persistence split=10,threshold=1/t",
                                     "sparsity threshold=0.5"};
  CHECK(texts("persistence:split=10,sparsity:threshold=0.5") == two);
  CHECK(texts("persistence:split=10;sparsity:threshold=0.5") == two);
  CHECK(texts("persistence:split=10,threshold=1/t,sparsity:threshold=0.5") == two);
  CHECK(texts("all").size() == analyses().size());
  CHECK(texts("sparsity:threshold=0.1,sparsity:threshold=0.2").size() == 2);
  using Catch::Contains;
  CHECK_THROWS_WITH(parse_analyses("sparsty"), Contains("sparsity"));
  CHECK_THROWS_WITH(parse_analyses(""), Contains("unknown analysis ''"));
  CHECK_THROWS_WITH(parse_analyses("sparsity,sparsity"), Contains("twice"));
  CHECK_THROWS_WITH(parse_analyses("sparsity:treshold=1"), Contains("threshold"));
  CHECK_THROWS_WITH(parse_analyses("sparsity:threshold=2"), Contains("0..1"));
  CHECK_THROWS_WITH(parse_analyses("sparsity:threshold"), Contains("key=value"));
  CHECK_THROWS_WITH(parse_analyses("sparsity:threshold=0.1,threshold=0.2"), Contains("twice"));
  CHECK_THROWS_AS(parse_analyses("threshold=0.1"), UsageError);
}

}  // namespace kvsim::analysis_test::registry_test
