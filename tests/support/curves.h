#pragma once

#include <catch2/catch.hpp>
#include <vector>

#include "sim/curve/curve.h"
#include "tests/support/compare.h"
#include "tests/support/nightly.h"
#include "tests/support/variants.h"

namespace kvsim::test_support {

/// Every policy with a curve, with every parameter at the values that the tests try; at its
/// defaults where sanitizers watch.
inline std::vector<Spec> policies_to_try() {
  std::vector<Spec> specs = policies_with_curves();
  for (const char* text :
       {"h2o:recent=0,score=full", "h2o:recent=7,score=full,precision=half",
        "h2o:recent=1000,score=full", "h2o:recent=7,score=full,keep=light", "sink:sinks=0",
        "sink:sinks=1000", "strided:stride=5", "fixed:block=8,summary=3", "optimal:recent=5"}) {
    specs.emplace_back(text);
  }
  if (!is_watched()) {
    for (const Variant& variant : all_variants()) specs.push_back(variant.spec);
  }
  std::erase_if(specs,
                [](const Spec& spec) { return !spec.nests() && !spec.plans_every_budget(); });
  return each_once(specs);
}

/// With seed 1.
inline Curve curve_of(const Unit& unit, const Spec& policy, CurveOptions options) {
  options.seed = 1;
  return curves_of(unit, std::vector{policy}, options, *make_cpu_backend()).front();
}

/// Number i of the budgets of a curve with schedules against the replay at this budget.
inline void require_counts(const Curve& curve, std::size_t i, const Outcome& replayed) {
  const Result& result = replayed.result;
  REQUIRE(curve.evicted_after[i] == replayed.trajectory.evicted_after);
  REQUIRE(curve.steps == result.steps);
  REQUIRE(curve.token_accesses == result.token_accesses);
  REQUIRE(curve.token_misses[i] == result.token_misses);
  REQUIRE(curve.evictions[i] == result.evictions);
  REQUIRE(curve.peak_tokens[i] == result.peak_tokens);
  REQUIRE(close(curve.attention_loss[i], *result.attention_loss, 1e-9, 1e-12));
}

/// Whether two errors agree to 1e-5, or are both no larger than rounding.
inline bool same_error(double a, double b) { return close(a, b, 1e-5, 1e-9); }

inline void check_errors(const OutputErrors& errors, const Result& replayed) {
  CHECK(same_error(errors.mean, *replayed.output_error_mean));
  CHECK(same_error(errors.p50, *replayed.output_error_p50));
  CHECK(same_error(errors.p95, *replayed.output_error_p95));
  CHECK(same_error(errors.max, *replayed.output_error_max));
  CHECK(same_error(errors.bound_mean, *replayed.bound_mean));
  CHECK(errors.bound_violations == 0);
}

}  // namespace kvsim::test_support
