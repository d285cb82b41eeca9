#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "sim/results/paired_comparison.h"

namespace kvsim::compared_sizes_test {

/// Rows of a policy on five layers of a text.
std::vector<MeasuredRow> rows(const std::string& policy, int budget, const std::string& request,
                              double value) {
  std::vector<MeasuredRow> found;
  for (int layer = 0; layer < 5; ++layer) {
    found.push_back({.trace_id = "id",
                     .sequence = "text",
                     .layer = layer,
                     .policy = policy,
                     .budget = budget,
                     .mode = "stream",
                     .budget_request = request,
                     .steps = 100,
                     .value = value});
  }
  return found;
}

std::vector<MeasuredRow> operator+(std::vector<MeasuredRow> a, const std::vector<MeasuredRow>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

PairedComparison compared(const std::vector<MeasuredRow>& a, const std::vector<MeasuredRow>& b,
                          const char* budget = nullptr) {
  return compare_rows(
      a, b, metric_named("attention_recall"),
      budget == nullptr ? std::nullopt : std::optional(Amount::parse_budget(budget, "--budget")));
}

TEST_CASE("rows asked for by one size are at one budget, whatever their tokens", "[comparison]") {
  const auto plain = rows("a", 64, "4KiB", 0.5) + rows("a", 128, "8KiB", 0.7);
  const auto quantised = rows("b", 170, "4096B", 0.6) + rows("b", 341, "8KiB", 0.9);
  const PairedComparison all = compared(quantised, plain);
  REQUIRE(all.differences.size() == 2);
  CHECK(all.differences[0].budget == Value(std::string("4096B")));  // as the first wrote it
  CHECK(all.differences[0].estimate.value == Approx(0.1));
  CHECK(all.differences[1].budget == Value(std::string("8KiB")));
  CHECK(all.differences[1].estimate.value == Approx(0.2));
  CHECK(all.differences[1].is_distinguishable());
  CHECK((all.only_first.rows == 0 && all.only_second.rows == 0));

  const PairedComparison one = compared(quantised, plain, "8.192kB");
  REQUIRE(one.differences.size() == 1);
  CHECK(one.differences[0].budget == Value(std::string("8.192kB")));
  CHECK(one.differences[0].estimate.value == Approx(0.2));
}

TEST_CASE("rows of as many tokens are compared at tokens, not at sizes that differ",
          "[comparison]") {
  const auto plain = rows("a", 64, "4KiB", 0.5) + rows("a", 128, "128", 0.7);
  const auto quantised = rows("b", 64, "2KiB", 0.4) + rows("b", 128, "3KiB", 0.6);
  const PairedComparison all = compared(plain, quantised);
  REQUIRE(all.differences.size() == 1);  // one of them was asked for by tokens
  CHECK(all.differences[0].budget == Value(std::int64_t{128}));
  CHECK(all.differences[0].estimate.value == Approx(0.1));
  CHECK(all.only_first.budgets == std::vector<std::string>{"4KiB"});
  CHECK(all.only_second.budgets == std::vector<std::string>{"2KiB"});

  const PairedComparison tokens = compared(plain, quantised, "64");
  REQUIRE(tokens.differences.size() == 1);
  CHECK(tokens.differences[0].budget == Value(std::int64_t{64}));
  CHECK(tokens.only_first.rows == 0);
  CHECK_THROWS_WITH(compared(plain, quantised, "4KiB"),
                    Catch::StartsWith("--budget 4KiB: no unit has rows of both policies") &&
                        Catch::EndsWith("name the budget as the rows of both do"));
}

TEST_CASE("a row with pairs at a size and at tokens takes part in both", "[comparison]") {
  const auto plain = rows("a", 64, "4KiB", 0.5);
  const auto quantised = rows("b", 170, "4KiB", 0.8) + rows("b", 64, "64", 0.3);
  const PairedComparison both = compared(plain, quantised);
  REQUIRE(both.differences.size() == 2);
  CHECK(both.differences[0].estimate.value + both.differences[1].estimate.value ==
        Approx(0.2 - 0.3));
}

}  // namespace kvsim::compared_sizes_test
