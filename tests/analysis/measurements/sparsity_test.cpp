#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/base/errors.h"
#include "tests/analysis/analysed.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::sparsity_test {

using namespace test_support;

double sparsity(const Unit& unit, const std::string& threshold) {
  return analyse("sparsity:threshold=" + threshold, unit).at(0).real("sparsity");
}

TEST_CASE("sparsity counts what is small next to its row's largest", "[analysis]") {
  // As shares of the largest: 1; 1, 0.007; 1, 0.37, 0.05; 0.14, 1, 0.08, 0.37.
  const std::vector<std::vector<double>> logits{{3}, {0, -5}, {7, 6, 4}, {-2, 0, -2.5, -1}};
  const Unit unit = unit_of_logits(4, [&](int t, int j) { return logits[t][j]; });
  const Row row = analyse("sparsity", unit).at(0);
  CHECK(row.real("threshold") == 0.01);
  CHECK(row.real("sparsity") == 0.1);
  CHECK(row.integer("entries") == 10);
  CHECK(sparsity(unit, "0.06") == 0.2);
  CHECK(sparsity(unit, "0.1") == 0.3);
  CHECK(sparsity(unit, "0.2") == 0.4);
  CHECK(sparsity(unit, "0.5") == 0.6);
  CHECK(sparsity(unit, "1") == 0.6);
}

TEST_CASE("sparsity is what its definition says", "[analysis]") {
  Unit unit = random_unit({.tokens = 101, .group = 3}, 8);
  if (GENERATE(false, true)) unit.sliding_window = 17;
  if (GENERATE(false, true)) unit.sink_logit = {-1.F, 2.F, 8.F};
  if (GENERATE(false, true))
    unit.selected = random_unit({.tokens = 101, .selected = 9}, 8).selected;
  const auto [text, threshold] =
      GENERATE(table<std::string, double>({{"0.01", 0.01}, {"0.1", 0.1}, {"0.7", 0.7}}));
  CAPTURE(unit.sliding_window.has_value(), text);
  const std::vector<Row> rows = analyse("sparsity:threshold=" + text, unit);
  REQUIRE(rows.size() == 3);
  for (int head = 0; head < 3; ++head) {
    const ReferenceAttention attention(unit, head);
    int small = 0, visible = 0;
    for (std::size_t t = 0; t < attention.full.size(); ++t) {
      const std::vector<double>& row = attention.full[t];
      const double largest = *std::max_element(row.begin(), row.end());
      for (std::size_t j = 0; j < row.size(); ++j) {
        if (!std::isfinite(attention.logit[t][j])) continue;
        ++visible;
        small += row[j] < threshold * largest;
      }
    }
    CHECK(rows[head].head == head);
    CHECK(rows[head].integer("entries") == visible);
    CHECK(rows[head].real("sparsity") == Approx(static_cast<double>(small) / visible));
  }
}

TEST_CASE("what a sliding window hides is not sparse but absent", "[analysis]") {
  Unit unit = uniform_unit({.tokens = 20});
  unit.sliding_window = 3;
  const Row row = analyse("sparsity:threshold=1", unit).at(0);
  CHECK(row.real("sparsity") == 0);
  CHECK(row.integer("entries") == 1 + 2 + 18 * 3);
}

TEST_CASE("nothing is below a threshold of 0, and more below a higher one", "[analysis]") {
  Unit unit = random_unit({.tokens = 50, .spread = 3}, 2);
  unit.sliding_window = GENERATE(20, 50);
  double previous = sparsity(unit, "0");
  CHECK(previous == 0);
  for (const std::string threshold : {"0.0001", "0.001", "0.01", "0.1", "1"}) {
    CAPTURE(threshold);
    CHECK(sparsity(unit, threshold) > previous);
    previous = sparsity(unit, threshold);
  }
  CHECK(previous < 1);  // every row has its largest
}

TEST_CASE("a threshold of sparsity is a share", "[analysis]") {
  const Unit unit = random_unit({.tokens = 4}, 1);
  for (const std::string text : {"", "-0.1", "1.1", "nan", "x"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(sparsity(unit, text), UsageError);
  }
}

}  // namespace kvsim::analysis_test::sparsity_test
