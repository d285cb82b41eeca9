#include <catch2/catch.hpp>
#include <numeric>

#include "tests/support/compare.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"
#include "tests/support/variants.h"

namespace kvsim::error_bound_test {

using namespace test_support;

// One query head at one step of a replay, computed from the tokens in its cache.
struct StepError {
  double missing = 0;        // m, the attention that fell on missing tokens
  double identity = 0;       // |m (v - o')| / |o|, v being the mean value of the missing tokens
  double output_length = 0;  // |o|
};

StepError step_error(const Unit& unit, const ReferenceAttention& head, int t,
                     const std::vector<std::int32_t>& evicted_after) {
  StepError error;
  std::vector<int> attended, missing;
  std::vector<double> missing_attention;
  const auto step = static_cast<std::size_t>(t);
  for (int j = 0; j <= t; ++j) {
    const auto token = static_cast<std::size_t>(j);
    if (evicted_after[token] >= t) {
      attended.push_back(j);
    } else {
      missing.push_back(j);
      missing_attention.push_back(head.full[step][token]);
    }
  }
  error.missing = std::accumulate(missing_attention.begin(), missing_attention.end(), 0.0);
  const std::vector<double> cached =
      weighted_value(unit, attended, softmax(head.logit[step], attended, head.sink));
  std::vector<double> difference = weighted_value(unit, missing, missing_attention);
  for (std::size_t c = 0; c < cached.size(); ++c) difference[c] -= error.missing * cached[c];
  error.output_length = norm(head.output[step]);
  error.identity = norm(difference) / error.output_length;
  return error;
}

void check_errors(const Unit& unit, Mode mode) {
  const ReferenceUnit reference(unit);
  for (const Variant& variant : all_variants()) {
    const bool hides = unit.sliding_window || unit.attention_chunk;
    if (variant.spec.rules({}).joins_tokens() && hides) continue;  // refused
    const ReplayOptions options =
        options_for(variant.spec, {.protocol = {.mode = mode}, .trajectories = true});
    const int first = options.protocol.mode == Mode::stream ? 0 : unit.prompt_length;
    const bool has_bound = variant.spec.rules({}).is_exact() && !variant.spec.is_estimator();
    const bool selects = variant.spec.rules({}).selects;
    for (const int budget : {1, 9, 33}) {
      CAPTURE(variant.spec.text(), budget);
      const Outcome outcome =
          replay(unit, {{variant.spec, budget}}, options, *make_cpu_backend()).front();
      REQUIRE(outcome.result.bound_violations.has_value() == has_bound);
      REQUIRE(outcome.result.bound_mean.has_value() == has_bound);
      if (!has_bound) continue;
      CHECK(outcome.result.bound_violations == 0);
      for (int h = 0; h < unit.group_size(); ++h) {
        for (int t = first; t < unit.num_tokens(); ++t) {
          const StepError expected = step_error(unit, reference.heads[static_cast<std::size_t>(h)],
                                                t, outcome.trajectory.evicted_after);
          const double error = double{outcome.trajectory.output_error(h, t - first)};
          const double loss = 1 - double{outcome.trajectory.attention_recall(h, t - first)};
          // The trajectory is in single precision; it does not tell what a policy selected.
          const bool is_loss = selects || close(loss, expected.missing, 0, 2e-6);
          const bool is_error = selects || close(error, expected.identity, 1e-5, 1e-7);
          const double rounded_loss = loss + 1e-7;
          const double bound = 2 * reference.longest_value[static_cast<std::size_t>(t)] *
                               rounded_loss / expected.output_length;
          if (is_loss && is_error && error <= bound) continue;  // messages take long to write
          CAPTURE(h, t, loss, expected.missing, error, expected.identity, bound);
          REQUIRE(is_loss);
          REQUIRE(is_error);
          REQUIRE(error <= bound);
        }
      }
    }
  }
}

TEST_CASE("the error is what the missing tokens would have added, and within its bound",
          "[registry]") {
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  SECTION("random attention") {
    check_errors(random_unit({.tokens = 70, .group = 2, .prompt_length = 20}, 31), mode);
  }
  SECTION("peaked attention, where the cache may miss nearly all of it") {
    check_errors(random_unit({.tokens = 70, .spread = 12, .prompt_length = 20}, 32), mode);
  }
  SECTION("a sliding window") {
    Unit unit = random_unit({.tokens = 70, .prompt_length = 20}, 33);
    unit.sliding_window = 15;
    check_errors(unit, mode);
  }
  SECTION("learned sinks, as much as a token has or nearly all, with or without chunks") {
    const UnitShape shape{.tokens = 70, .group = 2, .prompt_length = 20};
    UnitShape with_sinks = shape;
    with_sinks.sink_logit = GENERATE(1.F, 12.F);
    check_errors(random_unit(with_sinks, 36), mode);
    with_sinks.attention_chunk = 25;
    check_errors(random_unit(with_sinks, 37), mode);
  }
}

TEST_CASE("the bound holds where one value is far longer than the others", "[registry]") {
  Unit unit = random_unit({.tokens = 70, .prompt_length = 20}, 34);
  unit.value.row(3) *= 1000;
  check_errors(unit, Mode::stream);
}

TEST_CASE("values that are all zero give neither error nor bound", "[registry]") {
  Unit unit = random_unit({.tokens = 40}, 35);
  unit.value.setZero();
  const Outcome outcome = replay(unit, {{Spec("window"), 3}}, {}, *make_cpu_backend()).front();
  CHECK(outcome.result.output_error_max == 0);
  CHECK(outcome.result.bound_mean == 0.0);
  CHECK(outcome.result.bound_violations == 0);
  CHECK(outcome.result.attention_loss > 0.1);
}

}  // namespace kvsim::error_bound_test
