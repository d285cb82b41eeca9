#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "tests/analysis/analysed.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::good_distribution_test {

using namespace test_support;

constexpr double kNone = -100;

/// Tokens 0 and 1 have 40% of each step's attention each, the newest token the rest; at step `bare`
/// token 0 has all.
Unit two_heavy_tokens(int tokens, int bare) {
  return unit_of_logits(tokens, [=](int t, int j) {
    if (t == bare) return j == 0 ? 0 : kNone;
    return j <= 1 ? std::log(0.4) : j == t ? std::log(0.2) : kNone;
  });
}

const Row& row_of_k(const std::vector<Row>& rows, int k) {
  return *std::find_if(rows.begin(), rows.end(),
                       [=](const Row& row) { return row.integer("k") == k; });
}

TEST_CASE("good-distribution: two heavy tokens and one of its own make each step good",
          "[analysis]") {
  // The supports of steps 10 .. 19 are {0, 1, t}.
  const std::vector<Row> rows =
      analyse("good-distribution:alpha=0.5,tau=0.1", two_heavy_tokens(20, -1));
  const Row& two = row_of_k(rows, 2);
  CHECK(two.integer("steps") == 10);
  CHECK(two.real("support_mean") == 3);
  CHECK(two.integer("support_max") == 3);
  CHECK(two.integer("common") == 2);
  CHECK(two.real("least_alpha") == 0.5);
  CHECK(two.integer("is_good") == 1);
  CHECK(two.real("good_share") == 1);
  CHECK(two.real("good_share_bound") == 1);
  // Claim D.34 cannot be had better: one token of its own per step, 10 in all.
  CHECK(two.integer("support_union") == 12);
  CHECK(two.real("union_bound") == 10);
  CHECK(two.integer("claim_holds") == 1);
  // One token of two leaves two outside, and three have no third in common.
  CHECK(row_of_k(rows, 1).real("least_alpha") == 2);
  CHECK(row_of_k(rows, 1).integer("is_good") == 0);
  CHECK(row_of_k(rows, 4).is_null("least_alpha"));
  CHECK(row_of_k(rows, 4).real("good_share_bound") == 0);
  const Row less =
      row_of_k(analyse("good-distribution:alpha=0.49,tau=0.1", two_heavy_tokens(20, -1)), 2);
  CHECK(less.integer("is_good") == 0);
  CHECK(less.real("good_share") == 0);
  CHECK(less.is_null("claim_holds"));
}

TEST_CASE("good-distribution: one step with another support breaks the definition at one step",
          "[analysis]") {
  const std::vector<Row> rows =
      analyse("good-distribution:alpha=0.5,tau=0.1", two_heavy_tokens(20, 13));
  CHECK(row_of_k(rows, 2).integer("common") == 1);
  CHECK(row_of_k(rows, 2).integer("is_good") == 0);
  CHECK(row_of_k(rows, 2).real("good_share") == 0.9);
  CHECK(row_of_k(rows, 2).real("good_share_bound") == 0.9);
  // With one token of S_0, only the step that has no other is good.
  CHECK(row_of_k(rows, 1).real("good_share") == 0.1);
}

/// The largest number of good steps that any set of k tokens has, by trying all sets.
int most_good_steps(const std::vector<std::set<int>>& supports, int num_tokens, double alpha,
                    int k) {
  int most = 0;
  for (unsigned set = 0; set < 1U << num_tokens; ++set) {
    if (__builtin_popcount(set) != k) continue;
    int good = 0;
    for (const std::set<int>& support : supports) {
      int missing = 0;
      int outside = 0;
      for (int j = 0; j < num_tokens; ++j) {
        const bool is_chosen = (set >> j & 1U) != 0;
        missing += is_chosen && !support.contains(j);
        outside += !is_chosen && support.contains(j);
      }
      good += missing == 0 && outside <= alpha * k;
    }
    most = std::max(most, good);
  }
  return most;
}

TEST_CASE("good-distribution is what its definition says", "[analysis]") {
  Unit unit = random_unit({.tokens = 14, .group = 2, .spread = 2}, 17);
  if (GENERATE(false, true)) unit.sliding_window = 9;
  const auto [text, alpha] =
      GENERATE(table<std::string, double>({{"0", 0}, {"0.5", 0.5}, {"1", 1}}));
  CAPTURE(unit.sliding_window.has_value(), text);
  const std::vector<Row> rows =
      analyse("good-distribution:tau=0.05,start=4,most=8,alpha=" + text, unit);
  REQUIRE(rows.size() == 8);
  int exact = 0;
  for (const Row& row : rows) {
    const ReferenceAttention attention(unit, row.head);
    std::vector<std::set<int>> supports;
    std::vector<int> steps_of_token(14, 0);
    std::size_t largest = 0;
    for (int t = 4; t < 14; ++t) {
      std::set<int>& support = supports.emplace_back();
      for (int j = 0; j <= t; ++j) {
        if (attention.full[t][j] > 0.05) support.insert(j);
      }
      for (const int j : support) ++steps_of_token[j];
      largest = std::max(largest, support.size());
    }
    const int k = static_cast<int>(row.integer("k"));
    const auto common = std::count(steps_of_token.begin(), steps_of_token.end(), 10);
    CHECK(row.integer("common") == common);
    CHECK(row.integer("support_max") == static_cast<std::int64_t>(largest));
    CHECK(row.integer("support_union") ==
          14 - std::count(steps_of_token.begin(), steps_of_token.end(), 0));
    const double best = most_good_steps(supports, 14, alpha, k) / 10.0;
    CAPTURE(row.head, k, best);
    CHECK(row.integer("is_good") == (best == 1));
    CHECK(row.real("good_share") <= best);
    CHECK(row.real("good_share_bound") >= best);
    if (k == 1) CHECK(row.real("good_share") == best);
    exact += row.real("good_share") == best;
  }
  CHECK(exact >= 6);
}

TEST_CASE("good-distribution: no step that counts, no row", "[analysis]") {
  CHECK(analyse("good-distribution:start=30", random_unit({.tokens = 20}, 1)).empty());
}

}  // namespace kvsim::analysis_test::good_distribution_test
