#include <catch2/catch.hpp>

#include "policies/registry/registry.h"
#include "sim/base/errors.h"
#include "sim/sweep/run_curves.h"
#include "tests/plugin/plugin_files.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "traces/sha256.h"

namespace kvsim::plugin_policy_test {

using Catch::Contains;
using Catch::Matchers::Message;
using traces_test::TemporaryFolder;

/// H2O as the engine replays it step by step, without a kernel for its rule.
class SteppedH2O final : public Policy {
 public:
  SteppedH2O(const Params&, const Context& context) : h2o_(Spec("h2o").make(context)) {}

  Rules rules() const override {
    Rules rules = h2o_->rules();
    rules.score.reset();
    return rules;
  }

  void update(const Step& step, std::span<double> scores) override { h2o_->update(step, scores); }

 private:
  std::unique_ptr<Policy> h2o_;
};

void register_stepped_h2o() {
  register_policy({.name = "stepped-h2o",
                   .keeps = "what h2o keeps",
                   .source = "",
                   .sees = "",
                   .differences = "",
                   .params = {},
                   .make = make_policy<SteppedH2O>,
                   .code = "a test",
                   .origin = "a test"});
}

/// All that is measured of a row, with its unit and its budget.
std::vector<Value> measured(const Result& row) {
  std::vector<Value> values;
  for (const Column& column : result_columns()) {
    const std::string name = column.name;
    if (name != "policy" && name != "policy_code") values.push_back(column.get(row));
  }
  return values;
}

std::vector<std::vector<Value>> sorted_rows(const SweepRequest& request) {
  std::vector<std::vector<Value>> rows;
  for (const Result& row : test_support::rows_of(request)) rows.push_back(measured(row));
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST_CASE("plugin: a policy in C gives the rows of the same policy built in, bit for bit") {
  register_stepped_h2o();
  load_plugin(plugin_file("decayed_attention"));
  const TemporaryFolder folder;
  const auto trace = folder / "trace.h5";
  test_support::write_random_trace(trace, 5);
  for (const Mode mode : {Mode::stream, Mode::prefill}) {
    SweepRequest built_in = test_support::request(trace, "stepped-h2o", {"4", "20%", "9"});
    built_in.protocol.mode = mode;
    SweepRequest in_c =
        test_support::request(trace, "decayed-attention:decay=1", {"4", "20%", "9"});
    in_c.protocol.mode = mode;
    in_c.threads = 4;
    const auto rows = sorted_rows(in_c);
    CHECK(rows.size() == 3 * test_support::kUnits);
    CHECK(rows == sorted_rows(built_in));
    in_c.policies = parse_specs("decayed-attention:decay=0.5");
    CHECK(rows != sorted_rows(in_c));
  }
}

TEST_CASE("plugin: every replay has a state of its own, on any number of threads") {
  load_plugin(plugin_file("probe"));
  const TemporaryFolder folder;
  const auto trace = folder / "trace.h5";
  test_support::write_random_trace(trace, 6);
  // update() fails if a step of another replay comes between.
  SweepRequest request = test_support::request(trace, "drawn", {"3", "4", "5", "6", "7", "8"});
  const auto rows = sorted_rows(request);
  CHECK(rows.size() == 6 * test_support::kUnits);
  request.threads = 8;
  CHECK(sorted_rows(request) == rows);
  request.seed = 1;
  CHECK(sorted_rows(request) != rows);
}

TEST_CASE("plugin: a policy sees the vectors that its rules ask for") {
  load_plugin(plugin_file("probe"));
  const TemporaryFolder folder;
  const auto trace = folder / "trace.h5";
  test_support::write_random_trace(trace, 7);
  // update() fails if its own attention differs from that of the engine.
  CHECK(test_support::rows_of(test_support::request(trace, "value-attention", {"6"})).size() ==
        test_support::kUnits);
  CHECK(Spec("value-attention").rules({}).protect_first == 2);
  CHECK(Spec("value-attention+protect:first=3").rules({}).protect_first == 3);
}

TEST_CASE("plugin: parameters reach create() in declared order, amounts in tokens") {
  load_plugin(plugin_file("probe"));
  CHECK(Spec("failing").text() == "failing:order=oldest,length=3,share=0.5");
  CHECK_THROWS_WITH(Spec("failing:order=drown"), Contains("did you mean 'drawn'?"));
  CHECK_THROWS_WITH(Spec("failing:length=10"), Contains("expected -5..9"));
  const TemporaryFolder folder;
  const auto trace = folder / "trace.h5";
  test_support::write_random_trace(trace, 8);
  const auto request =
      test_support::request(trace, "failing:length=7,order=drawn,share=0.25", {"16"});
  CHECK_THROWS_MATCHES(test_support::rows_of(request), DataError,
                       Message("policy failing of " + plugin_file("probe").string() +
                               ": update() returned 2407 at step 0"));
}

TEST_CASE("plugin: a policy whose caches nest has a curve") {
  load_plugin(plugin_file("probe"));
  const TemporaryFolder folder;
  const auto trace = folder / "trace.h5";
  test_support::write_random_trace(trace, 9);
  SweepRequest request{.traces = {trace}, .policies = parse_specs("newest;window")};
  const std::atomic<bool> interrupted = false;
  std::size_t units = 0;
  run_curves(plan_curves(request, {"none", "--errors"}), *make_cpu_backend(), interrupted,
             [&](const PlannedUnit&, const std::vector<Curve>& curves, const auto&) {
               ++units;
               CHECK(curves[0].attention_loss == curves[1].attention_loss);
               CHECK(curves[0].token_misses == curves[1].token_misses);
             });
  CHECK(units == test_support::kUnits);
  request.policies = parse_specs("drawn");
  CHECK_THROWS_AS(plan_curves(request, {"none", "--errors"}), UsageError);
}

TEST_CASE("plugin: the code of a policy is a digest of its file, and its origin names it") {
  load_plugin(plugin_file("probe"));
  CHECK(find_policy("drawn").code == sha256_of_file(plugin_file("probe")));
  CHECK(find_policy("drawn").origin == plugin_file("probe").string());
  CHECK_FALSE(Spec("drawn").nests());
}

TEST_CASE("plugin: a path in place of a policy is an error that names --plugin") {
  CHECK_THROWS_MATCHES(parse_specs("h2o;./libmine.so"), UsageError,
                       Message("unknown policy './libmine.so'; if it is a plug-in, load it with "
                               "--plugin ./libmine.so and name a policy that it has (kvsim "
                               "--plugin ./libmine.so policies lists them)"));
}

}  // namespace kvsim::plugin_policy_test
