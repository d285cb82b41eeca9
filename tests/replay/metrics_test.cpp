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

TEST_CASE("measurements give the same bits one by one, together, and in parts", "[replay]") {
  std::vector<Measurement> all;
  for (int i = 0; i < 23; ++i) {
    const double share = 1.0 / (i + 3);
    all.push_back({.attention_loss = share,
                   .accesses = i,
                   .misses = i / 2,
                   .has_error = i % 4 != 1,
                   .error = 3 * share,
                   .squared = share * share,
                   .predicted_kl = share / 7,
                   .bound = i % 5 == 0 ? share : 5 * share});
  }
  // The sizes of parts, again and again.
  const std::vector<std::size_t> sizes =
      GENERATE(values<std::vector<std::size_t>>({{1}, {7, 0, 2, 5}, {22, 1}}));
  CAPTURE(sizes);
  Metrics metrics;
  std::span<const Measurement> rest(all);
  for (std::size_t part = 0; !rest.empty(); ++part) {
    const std::size_t count = std::min(sizes[part % sizes.size()], rest.size());
    metrics.add(rest.first(count));
    rest = rest.subspan(count);
  }
  Result result;
  metrics.summarize(2, result);
  Metrics together;
  together.add(all);
  Result expected;
  together.summarize(2, expected);
  CHECK(expected.bound_violations == 4);
  for (const Column& column : result_columns()) {
    CAPTURE(column.name);
    CHECK(column.get(result) == column.get(expected));
  }
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
