#include <catch2/catch.hpp>

#include "sim/kernels/percentile.h"
#include "sim/replay/metrics.h"
#include "tests/support/compare.h"
#include "tests/support/units.h"
#include "tests/support/variants.h"

namespace kvsim::every_test {

using namespace test_support;

// The expected result with --every, from the record of all steps.
Result expected_of(const Outcome& of_all_steps, int first_measured, int num_tokens, int every) {
  Result result = of_all_steps.result;
  const Matrix& error = of_all_steps.trajectory.output_error;
  std::vector<double> taken;
  for (int step = num_tokens - 1; step >= first_measured; step -= every) {
    for (int head = 0; head < error.rows(); ++head) {
      taken.push_back(error(head, step - first_measured));
    }
  }
  std::sort(taken.begin(), taken.end());
  double sum = 0;
  for (const double x : taken) sum += x;
  result.output_error_mean = sum / static_cast<double>(taken.size());
  result.output_error_p50 = percentile(taken, 0.5);
  result.output_error_p95 = percentile(taken, 0.95);
  result.output_error_max = taken.back();
  return result;
}

void check(const Unit& unit, int every, ReplayOptions options,
           const std::vector<Configuration>& configurations) {
  const auto all_steps = replay(unit, configurations, options, *make_cpu_backend());
  options.protocol.error_stride = every;
  const auto some_steps = replay(unit, configurations, options, *make_cpu_backend());
  const int n = unit.num_tokens();
  const int first = options.protocol.mode == Mode::prefill ? unit.prompt_length : 0;
  for (std::size_t i = 0; i < configurations.size(); ++i) {
    CAPTURE(configurations[i].policy.text(), configurations[i].budget, every);
    Result found = some_steps[i].result;
    Result expected = expected_of(all_steps[i], first, n, every);
    CHECK(found.bound_violations == expected.bound_violations);
    CHECK(found.bound_mean.has_value() == expected.bound_mean.has_value());
    found.bound_mean = expected.bound_mean;  // the record of steps does not have it
    found.output_error_sq = expected.output_error_sq;
    CHECK(differences(found, expected, 1e-5) == "");
    const Trajectory& some = some_steps[i].trajectory;
    CHECK(some.evicted_after == all_steps[i].trajectory.evicted_after);
    CHECK(some.attention_recall == all_steps[i].trajectory.attention_recall);
    for (int step = first; step < n; ++step) {
      REQUIRE(std::isnan(some.output_error(0, step - first)) == ((n - 1 - step) % every != 0));
    }
  }
}

void check(const Unit& unit, Mode mode, int every) {
  std::vector<Configuration> configurations;
  for (const Variant& variant : all_variants()) {
    for (const int budget : {9, 30}) configurations.push_back({variant.spec, budget});
  }
  const ReplayOptions options{.protocol = {.mode = mode}, .seed = 2, .trajectories = true};
  for (const ReplayGroup& group : by_protocol(options, configurations)) {
    check(unit, every, group.options, group.configurations);
  }
}

TEST_CASE("errors taken at some steps are those of these steps") {
  check(random_unit({.tokens = 120, .group = 2, .prompt_length = 40}, 61), Mode::stream,
        GENERATE(1, 7, 50));
}

TEST_CASE("errors taken at some steps after a prompt are those of these steps") {
  check(random_unit({.tokens = 100, .group = 2, .prompt_length = 37}, 62), Mode::prefill,
        GENERATE(7, 40));
}

TEST_CASE("however seldom errors are taken, the last step's is") {
  const Unit unit = random_unit({.tokens = 90}, 63);
  ReplayOptions options{.trajectories = true};
  const Outcome all = replay(unit, {{Spec("h2o"), 10}}, options, *make_cpu_backend()).front();
  options.protocol.error_stride = 1000000;
  const Outcome one = replay(unit, {{Spec("h2o"), 10}}, options, *make_cpu_backend()).front();
  const double last = all.trajectory.output_error(0, 89);
  CHECK(last > 0);
  CHECK(one.result.output_error_mean == Approx(last).epsilon(1e-5));
  CHECK(one.result.output_error_max == one.result.output_error_mean);
}

TEST_CASE("the bound is the mean over the steps whose errors are taken") {
  const Unit unit = random_unit({.tokens = 90}, 64);
  ReplayOptions options;
  const auto bound_of = [&](const Unit& of, int every) {
    options.protocol.error_stride = every;
    return *replay(of, {{Spec("window"), 10}}, options, *make_cpu_backend())[0].result.bound_mean;
  };
  // The steps of every=2 and those of every=2 in the text without its last token are all steps.
  Unit shorter = unit;
  shorter.query[0] = unit.query[0].topRows(89).eval();
  shorter.key = unit.key.topRows(89).eval();
  shorter.value = unit.value.topRows(89).eval();
  const double all = bound_of(unit, 1);
  CHECK(all == Approx((bound_of(unit, 2) * 45 + bound_of(shorter, 2) * 45) / 90));
}

}  // namespace kvsim::every_test
