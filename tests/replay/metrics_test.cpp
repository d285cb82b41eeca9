#include "sim/replay/metrics.h"

#include <catch2/catch.hpp>

namespace kvsim::metrics_test {

Result summary(const std::vector<Measurement>& measurements) {
  Metrics metrics;
  metrics.add(measurements);
  Result result;
  metrics.summarize(1, result);
  return result;
}

TEST_CASE("errors are summarised in any order", "[replay]") {
  const Result result = summary({{.error = 4, .bound = 5},
                                 {.error = 1, .bound = 5},
                                 {.error = 8, .bound = 9},
                                 {.error = 2, .bound = 5}});
  CHECK(result.output_error_mean == 3.75);
  CHECK(result.output_error_p50 == 3);
  CHECK(result.output_error_p95 == Approx(7.4));
  CHECK(result.output_error_max == 8);
  CHECK(result.bound_mean == 6);
  CHECK(result.bound_violations == 0);
}

TEST_CASE("recall is what was not lost", "[replay]") {
  const Result result = summary({{.attention_loss = 0.5}, {.attention_loss = 0.25}, {}, {}});
  CHECK(result.attention_loss == 0.1875);
  CHECK(result.attention_recall == 0.8125);
}

TEST_CASE("the miss rate is a ratio of sums", "[replay]") {
  const Result result = summary({{.accesses = 1, .misses = 1}, {.accesses = 7, .misses = 1}});
  CHECK(result.token_accesses == 8);
  CHECK(result.token_misses == 2);
  CHECK(result.miss_rate == 0.25);
  CHECK(summary({{}}).miss_rate == 0);
}

TEST_CASE("an error violates its bound beyond one part in ten thousand", "[replay]") {
  CHECK(summary({{.error = 1, .bound = 1}}).bound_violations == 0);
  CHECK(summary({{.error = 1.00009, .bound = 1}}).bound_violations == 0);
  CHECK(summary({{.error = 1.00011, .bound = 1}, {.error = 2, .bound = 1}}).bound_violations == 2);
  CHECK(summary({{.error = 1e-9, .bound = 0}}).bound_violations == 1);
  CHECK(summary({{.error = 1e-9, .bound = 0, .bound_slack = 2e-9}}).bound_violations == 0);
}

}  // namespace kvsim::metrics_test
