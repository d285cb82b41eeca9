#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "analysis/fits/rank_correlation.h"
#include "sim/base/errors.h"
#include "tests/analysis/analysed.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::heavy_hitters_test {

using namespace test_support;

std::vector<double> accumulated(const Unit& unit, int head) {
  std::vector<double> score(static_cast<std::size_t>(unit.num_tokens()));
  for (const std::vector<double>& row : ReferenceAttention(unit, head).full) {
    for (std::size_t j = 0; j < row.size(); ++j) score[j] += row[j];
  }
  return score;
}

// Each token attends to itself alone.
Unit diagonal_unit(const std::vector<std::int32_t>& ids) {
  Unit unit = random_unit({.tokens = static_cast<int>(ids.size())}, 1);
  unit.sliding_window = 1;
  unit.token_ids = ids;
  return unit;
}

// Every step attends to this token as soon as it can see it.
Unit hitting_unit(int tokens, int heavy) {
  return unit_of_logits(tokens, [&](int, int j) { return j == heavy ? 30 : 0; });
}

std::vector<Row> of_head(const std::vector<Row>& rows, int head) {
  std::vector<Row> chosen;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(chosen),
               [&](const Row& row) { return row.head == head; });
  return chosen;
}

TEST_CASE("heavy hitters are ranked by the attention that they collect", "[analysis]") {
  Unit unit = random_unit({.tokens = 101, .group = 2}, 6);
  if (GENERATE(false, true)) unit.sliding_window = 17;
  if (GENERATE(false, true)) unit.sink_logit = {0.F, 5.F};
  const std::vector<Row> all = analyse("heavy-hitters", unit);
  REQUIRE(all.size() == 202);
  for (int head = 0; head < 2; ++head) {
    const std::vector<Row> rows = of_head(all, head);
    const std::vector<double> expected = accumulated(unit, head);
    std::vector<bool> seen(101);
    double sum = 0;
    double previous = 101;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto position = static_cast<std::size_t>(rows[i].integer("position"));
      const double score = rows[i].real("accumulated_score");
      sum += score;
      seen.at(position) = true;
      CHECK(score == Approx(expected[position]).epsilon(1e-5));
      CHECK(score <= previous);
      CHECK(rows[i].integer("rank") == static_cast<std::int64_t>(i + 1));
      CHECK(rows[i].real("cumulative_share") == Approx(sum / 101));
      CHECK(rows[i].is_null("token_id"));
      previous = score;
    }
    CHECK(std::count(seen.begin(), seen.end(), true) == 101);
    // What a sink takes, no position collects.
    CHECK(sum == Approx(std::accumulate(expected.begin(), expected.end(), 0.0)));
    CHECK((sum < 100) == !unit.sink_logit.empty());
  }
}

TEST_CASE("a planted heavy hitter is found", "[analysis]") {
  Unit unit = hitting_unit(40, 7);
  unit.token_ids.resize(40);
  std::iota(unit.token_ids.begin(), unit.token_ids.end(), 500);
  const Row best = analyse("heavy-hitters", unit).at(0);
  CHECK(best.integer("position") == 7);
  CHECK(best.integer("token_id") == 507);
  CHECK(best.integer("rank") == 1);
  CHECK(best.real("accumulated_score") == Approx(33));
  CHECK(best.real("cumulative_share") == Approx(33.0 / 40));
}

TEST_CASE("of equal hitters the lower position ranks first", "[analysis]") {
  const std::vector<Row> rows = analyse("heavy-hitters", diagonal_unit({4, 4, 4, 4, 4}));
  REQUIRE(rows.size() == 5);
  for (std::int64_t i = 0; i < 5; ++i) {
    CHECK(rows[i].integer("position") == i);
    CHECK(rows[i].integer("rank") == i + 1);
    CHECK(rows[i].real("accumulated_score") == 1);
  }
}

double harmonic(int n) {
  double sum = 0;
  for (int i = 1; i <= n; ++i) sum += 1.0 / i;
  return sum;
}

TEST_CASE("uniform attention concentrates on early tokens as harmonic numbers do", "[analysis]") {
  // Token j collects 1/(j+1) + ... + 1/n, the first m of them m (1 + H(n) - H(m)).
  const int n = GENERATE(100, 270);
  const Row row = analyse("concentration", uniform_unit({.tokens = n})).at(0);
  const auto share = [n](int m) { return m * (1 + harmonic(n) - harmonic(m)) / n; };
  CHECK(row.real("best_1_percent") == Approx(share(n == 100 ? 1 : 3)));
  CHECK(row.real("best_5_percent") == Approx(share(n == 100 ? 5 : 14)));
  CHECK(row.real("best_10_percent") == Approx(share(n / 10)));
  CHECK(row.real("best_20_percent") == Approx(share(n / 5)));
  double differences = 0;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) differences += std::abs(harmonic(i) - harmonic(j));
  }
  CHECK(row.real("gini") == Approx(differences / (2.0 * n * n)));
}

TEST_CASE("all attention on one token is all concentration, on each alike none", "[analysis]") {
  const Row one = analyse("concentration", hitting_unit(100, 0)).at(0);
  for (const char* best : {"best_1_percent", "best_5_percent", "best_20_percent"}) {
    CHECK(one.real(best) == Approx(1));
  }
  CHECK(one.real("gini") == Approx(0.99));
  const Row alike = analyse("concentration", diagonal_unit(std::vector<std::int32_t>(100))).at(0);
  CHECK(alike.real("best_1_percent") == Approx(0.01));
  CHECK(alike.real("best_10_percent") == Approx(0.1));
  CHECK(alike.real("gini") == Approx(0).margin(1e-12));
}

TEST_CASE("the best positions of a short text are one at least", "[analysis]") {
  const Row row = analyse("concentration", hitting_unit(12, 3)).at(0);
  CHECK(row.real("best_1_percent") == Approx(9.0 / 12));
  CHECK(row.real("best_5_percent") == Approx(9.0 / 12));
  const Row single = analyse("concentration", random_unit({.tokens = 1}, 1)).at(0);
  CHECK(single.real("best_20_percent") == 1);
  CHECK(single.real("gini") == 0);
}

TEST_CASE("the vocabulary sums positions up by entry", "[analysis]") {
  Unit unit = random_unit({.tokens = 80, .group = 2}, 7);
  for (int j = 0; j < 80; ++j) unit.token_ids.push_back(1000 - j * j % 11);
  const std::vector<Row> rows = analyse("vocabulary", unit);
  for (int head = 0; head < 2; ++head) {
    std::map<std::int64_t, std::pair<double, std::int64_t>> expected;
    const std::vector<double> score = accumulated(unit, head);
    for (std::size_t j = 0; j < score.size(); ++j) {
      expected[unit.token_ids[j]].first += score[j];
      ++expected[unit.token_ids[j]].second;
    }
    const std::vector<Row> found = of_head(rows, head);
    REQUIRE(found.size() == expected.size());
    for (const Row& row : found) {
      const auto [sum, occurrences] = expected.at(row.integer("token_id"));
      CHECK(row.real("accumulated_score") == Approx(sum).epsilon(1e-5));
      CHECK(row.integer("occurrences") == occurrences);
      CHECK(row.integer("window") == 10);
    }
  }
}

TEST_CASE("co-occurrences are positions within the window, cut at both ends", "[analysis]") {
  const auto [window, expected] = GENERATE(table<int, std::vector<std::int64_t>>({
      {1, {1 + 2 + 1, 2, 2}},
      {2, {2 + 4 + 2, 3, 3}},
      {9, {4 + 4 + 4, 4, 4}},
  }));
  const Unit unit = diagonal_unit({7, 8, 7, 9, 7});
  const auto rows = analyse("vocabulary:window=" + std::to_string(window), unit);
  std::vector<std::int64_t> ids, found;
  for (const Row& row : rows) {
    CHECK(row.integer("window") == window);
    ids.push_back(row.integer("token_id"));
    found.push_back(row.integer("co_occurrences"));
  }
  CHECK(ids == std::vector<std::int64_t>{7, 8, 9});
  CHECK(found == expected);
}

TEST_CASE("entries that collect as often as they occur correlate", "[analysis]") {
  const Row rising = analyse("vocabulary", diagonal_unit({5, 6, 7, 5, 6, 5, 8, 6, 5, 7})).at(0);
  CHECK(rising.real("occurrence_correlation") == Approx(1));
  CHECK(rising.real("co_occurrence_correlation") == Approx(1));
  Unit unit = hitting_unit(6, 0);
  unit.token_ids = {3, 4, 4, 4, 4, 4};
  const Row falling = analyse("vocabulary", unit).at(0);
  CHECK(falling.real("occurrence_correlation") == Approx(-1));
  CHECK(falling.real("co_occurrence_correlation") == Approx(-1));
}

TEST_CASE("entries that all occur alike correlate with nothing", "[analysis]") {
  Unit unit = hitting_unit(5, 2);
  unit.token_ids = {10, 11, 12, 13, 14};
  const Row row = analyse("vocabulary:window=1", unit).at(0);
  CHECK(row.is_null("occurrence_correlation"));
  CHECK(!row.is_null("co_occurrence_correlation"));
}

TEST_CASE("the vocabulary needs tokens and a window", "[analysis]") {
  CHECK(parse_analyses("vocabulary").at(0).info->needs_dataset(Dataset::token_ids));
  CHECK(!parse_analyses("heavy-hitters").at(0).info->needs_dataset(Dataset::token_ids));
  CHECK_THROWS_AS(parse_analyses("vocabulary:window=0"), UsageError);
}

std::optional<double> correlation(const std::vector<double>& a, const std::vector<double>& b) {
  return rank_correlation(a, b);
}

TEST_CASE("equal values share the mean of their ranks", "[analysis]") {
  CHECK(ranks(std::vector<double>{3, 1, 3, 2}) == std::vector<double>{3.5, 1, 3.5, 2});
  CHECK(ranks(std::vector<double>{4, 4, 4}) == std::vector<double>{2, 2, 2});
  CHECK(ranks(std::vector<double>{}).empty());
}

TEST_CASE("rank correlation is Spearman's", "[analysis]") {
  // 1 - 6 * (1 + 1 + 1 + 1) / (5 * 24)
  CHECK(correlation({10, 20, 30, 40, 500}, {2, 1, 4, 3, 5}).value() == Approx(0.8));
  // Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5.
  CHECK(correlation({1, 2, 2, 4}, {1, 2, 3, 4}).value() == Approx(4.5 / std::sqrt(4.5 * 5)));
  CHECK(correlation({1, 2, 3}, {9, 4, 1}).value() == Approx(-1));
  CHECK(!correlation({1, 2, 3}, {5, 5, 5}));
  CHECK(!correlation({5, 5, 5}, {1, 2, 3}));
  CHECK(!correlation({1}, {2}));
  CHECK(!correlation({}, {}));
}

}  // namespace kvsim::analysis_test::heavy_hitters_test
