// The table layer_error: which layers have rows, and when they are made.

#include "sim/sweep/whole_layers.h"

#include <catch2/catch.hpp>

#include "sim/sweep/stored_sweep.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::whole_layers_test {

using namespace test_support;
using traces_test::TemporaryFolder;
using Approx = Catch::Detail::Approx;

constexpr int kHidden = 9;
constexpr int kLayers = 4;  // of two sequences

/// A trace in which layers can be measured, and a store.
struct Measured {
  Measured() { write_random_trace(folder / "t.h5", 1, kPrompt, kHidden); }

  SweepPlan plan(const SweepRequest& wanted) {
    SweepPlan planned = plan_sweep(wanted);
    begin_sweep(planned, store, {"a command", "cpu"}, false);
    return planned;
  }

  void sweep(const SweepRequest& wanted) {
    const std::atomic<bool> interrupted = false;
    run_sweep(plan(wanted), *make_cpu_backend(), interrupted,
              [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
                store_unit(outcomes, store);
              });
  }

  SweepRequest request_for(const std::string& policies) const {
    return request(folder / "t.h5", policies, {"6"});
  }

  TemporaryFolder folder;
  ResultStore store{folder / "results.sqlite", ResultStore::Access::write};
};

std::size_t column(const Table& table, const std::string& name) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), name);
  REQUIRE(found != table.columns.end());
  return static_cast<std::size_t>(found - table.columns.begin());
}

double real(const Table& table, std::size_t row, const std::string& name) {
  return std::get<double>(table.rows[row][column(table, name)]);
}

TEST_CASE("whole layers: every kind of policy has one row per sequence, layer and budget") {
  Measured measured;
  const std::string policy = GENERATE("window", "lfu", "tova:scope=layer", "spatten", "topk",
                                      "subgen", "h2o+quant", "h2o@pyramid", "h2o@adaptive");
  CAPTURE(policy);
  measured.sweep(measured.request_for(policy));
  const Table layers = measured.store.table("layer_error");
  REQUIRE(layers.rows.size() == kLayers);
  const Table units = measured.store.table("replay");
  for (std::size_t layer = 0; layer < layers.rows.size(); ++layer) {
    CHECK(real(layers, layer, "projected_error") > 0);
    CHECK(real(layers, layer, "projected_error_relative") > 0);
    double sum = 0;
    for (std::size_t unit = 0; unit < units.rows.size(); ++unit) {
      const auto same = [&](const char* name) {
        return units.rows[unit][column(units, name)] == layers.rows[layer][column(layers, name)];
      };
      if (same("sequence") && same("layer")) sum += real(units, unit, "predicted_kl");
    }
    CHECK(real(layers, layer, "predicted_kl") == Approx(sum));
  }
}

TEST_CASE("whole layers: predicted KL is summed over the layers, and NULL if one is missing") {
  Measured measured;
  measured.sweep(measured.request_for("window"));
  const Table layers = measured.store.table("layer_error");
  const Table sums = measured.store.table("predicted_kl");
  REQUIRE(sums.rows.size() == 2);
  const double sum = real(layers, 0, "predicted_kl") + real(layers, 1, "predicted_kl");
  CHECK(real(sums, 0, "predicted_kl") == Approx(sum));
  const Value indicative = sums.rows[0][column(sums, "is_indicative")];
  CHECK(std::get<std::int64_t>(indicative) == (sum > kPredictedKlLimit ? 1 : 0));

  SweepRequest of_a_layer = measured.request_for("lru");
  of_a_layer.selection.layers = {1};
  measured.sweep(of_a_layer);
  const Table more = measured.store.table("predicted_kl");
  REQUIRE(more.rows.size() == 4);
  for (const std::vector<Value>& row : more.rows) {
    const bool is_window = row[column(more, "policy")] == Value(std::string("window"));
    CHECK(std::holds_alternative<std::monostate>(row[column(more, "predicted_kl")]) != is_window);
    CHECK(std::holds_alternative<std::monostate>(row[column(more, "is_indicative")]) != is_window);
  }
}

TEST_CASE("whole layers: a layer cut by the selection has no row, and gets one when it is whole") {
  Measured measured;
  SweepRequest cut = measured.request_for("window");
  cut.selection.kv_heads = {1};
  CHECK(note_of_cut_layers(plan_sweep(cut)) ==
        "4 layers without all KV heads get no row in the table layer_error");
  measured.sweep(cut);
  CHECK(measured.store.table("replay").rows.size() == kLayers);
  CHECK_THROWS_WITH(measured.store.table("layer_error"), Catch::Contains("has no table"));

  const SweepRequest whole = measured.request_for("window");
  CHECK(note_of_cut_layers(plan_sweep(whole)).empty());
  CHECK(measured.plan(whole).num_remaining() == kUnits);  // those of the cut sweep once more
  measured.sweep(whole);
  CHECK(measured.store.table("layer_error").rows.size() == kLayers);
  CHECK(measured.plan(whole).num_remaining() == 0);
  CHECK(measured.plan(cut).num_remaining() == 0);
}

TEST_CASE("whole layers: a row of another code goes with the rows of its units") {
  Measured measured;
  measured.sweep(measured.request_for("window"));
  std::vector<Result> rows = measured.store.policy_results("window");
  for (Result& row : rows) row.policy_code = "another";
  rows.resize(1);
  measured.store.add(rows);
  CHECK(measured.store.table("layer_error").rows.size() == kLayers - 1);
}

TEST_CASE("whole layers: without what they need, or without a reference, there are none") {
  Measured measured;
  SweepRequest unmeasured = measured.request_for("window");
  unmeasured.protocol.reference = Reference::none;
  measured.sweep(unmeasured);
  CHECK_THROWS_WITH(measured.store.table("layer_error"), Catch::Contains("has no table"));

  write_random_trace(measured.folder / "plain.h5", 2);
  measured.sweep(request(measured.folder / "plain.h5", "window", {"6"}));
  CHECK_THROWS_WITH(measured.store.table("layer_error"), Catch::Contains("has no table"));
}

TEST_CASE("whole layers: rows do not depend on the number of threads") {
  Measured one;
  Measured two;
  SweepRequest wanted = one.request_for("window;h2o;tova:scope=layer");
  one.sweep(wanted);
  wanted.traces = {two.folder / "t.h5"};
  wanted.threads = 2;
  two.sweep(wanted);
  const Table expected = one.store.table("layer_error");
  const Table found = two.store.table("layer_error");
  REQUIRE(found.rows.size() == expected.rows.size());
  for (const char* name : {"projected_error", "projected_error_relative", "predicted_kl"}) {
    for (std::size_t row = 0; row < found.rows.size(); ++row) {
      CHECK(real(found, row, name) == real(expected, row, name));
    }
  }
}

}  // namespace kvsim::whole_layers_test
