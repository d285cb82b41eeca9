#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "sim/base/errors.h"
#include "tests/analysis/analysed.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::persistence_test {

using namespace test_support;

using Tokens = std::set<int>;

Tokens intersection(const Tokens& a, const Tokens& b) {
  Tokens both;
  for (const int token : a) {
    if (b.contains(token)) both.insert(token);
  }
  return both;
}

double ratio(std::size_t part, std::size_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

struct Threshold {
  std::string text;
  double value;
  bool per_step;

  double at(int step) const { return per_step ? value / (step + 1) : value; }
};

/// The paper's S_t of one query head.
class Pivotal {
 public:
  Pivotal(const Unit& unit, int head, const Threshold& threshold) : attention_(unit, head) {
    for (int t = 0; t < unit.num_tokens(); ++t) {
      Tokens& tokens = at_step_.emplace_back();
      for (int j = 0; j <= t; ++j) {
        if (attention_.full[t][j] > threshold.at(t)) tokens.insert(j);
      }
    }
  }

  /// Of the tokens before `split`, those in the union of S_t over steps first .. last - 1.
  Tokens at_some_step(int first, int last, int split) const {
    Tokens tokens;
    for (int t = first; t < last; ++t) {
      for (const int j : at_step_[t]) {
        if (j < split) tokens.insert(j);
      }
    }
    return tokens;
  }

  /// Of the tokens before `split`, those in S_t of all these steps that see them, step 0 aside.
  Tokens at_every_step(int first, int last, int split) const {
    Tokens tokens = at_some_step(std::max(first, 1), last, split);
    for (int t = std::max(first, 1); t < last; ++t) {
      for (int j = 0; j <= t; ++j) {
        const bool is_visible = std::isfinite(attention_.logit[t][j]);
        if (is_visible && !at_step_[t].contains(j)) tokens.erase(j);
      }
    }
    return tokens;
  }

 private:
  ReferenceAttention attention_;
  std::vector<Tokens> at_step_;
};

void check_shares(const Row& row, const std::string& prefix, const Tokens& first,
                  const Tokens& second) {
  const auto split = static_cast<std::size_t>(row.integer("split"));
  const Tokens both = intersection(first, second);
  CHECK(row.real(prefix + "pivotal_share") == Approx(ratio(first.size(), split)));
  CHECK(row.real(prefix + "persistence_ratio") ==
        Approx(second.empty() ? 1 : ratio(both.size(), second.size())));
  CHECK(row.integer(prefix + "later_pivotal") == static_cast<std::int64_t>(second.size()));
}

TEST_CASE("persistence is what the paper's sets say", "[analysis]") {
  Unit unit = random_unit({.tokens = 101, .group = 3}, 11);
  if (GENERATE(false, true)) unit.sliding_window = 17;
  if (GENERATE(false, true)) unit.sink_logit = {-1.F, 2.F, 8.F};
  if (GENERATE(false, true))
    unit.selected = random_unit({.tokens = 101, .selected = 60}, 3).selected;
  const auto threshold = GENERATE(values<Threshold>(
      {{"1/t", 1, true}, {"2/t", 2, true}, {"0.5/t", 0.5, true}, {"0.02", 0.02, false}}));
  const auto [asked, split] = GENERATE(table<std::string, int>(
      {{"0.5", 50}, {"25%", 25}, {"2", 2}, {"64", 64}, {"100", 100}, {"101", 101}}));
  CAPTURE(unit.sliding_window.has_value(), threshold.text, asked);
  const std::vector<Row> rows =
      analyse("persistence:split=" + asked + ",threshold=" + threshold.text, unit);
  REQUIRE(rows.size() == 3);
  for (int head = 0; head < 3; ++head) {
    const Row& row = rows[head];
    const Pivotal pivotal(unit, head, threshold);
    CHECK(row.head == head);
    CHECK(row.integer("split") == split);
    CHECK(row.text("threshold") == threshold.text);
    check_shares(row, "", pivotal.at_some_step(0, split, split),
                 pivotal.at_some_step(split, 101, split));
    check_shares(row, "every_", pivotal.at_every_step(0, split, split),
                 pivotal.at_every_step(split, 101, split));
  }
}

// Twenty steps that attend evenly to a few tokens each. Of the first ten tokens 0, 1, 5 and 8 are
// pivotal at some step before step 10, 0 and 8 at every one that sees them; from step 10 on 1, 5, 7
// and 8 are at some step, 1 and 8 at every one.
Unit planted_unit() {
  const auto attended = [](int t) {
    if (t < 10) return t == 3 ? Tokens{0, 1} : t == 5 ? Tokens{0, 5} : Tokens{0, 8};
    return t % 2 == 0 ? Tokens{1, 5, 8} : Tokens{1, 7, 8, 10};
  };
  return unit_of_logits(20, [&](int t, int j) { return attended(t).contains(j) ? 15 : 0; });
}

TEST_CASE("persistence finds the planted pivotal tokens", "[analysis]") {
  const Row row = analyse("persistence", planted_unit()).at(0);
  CHECK(row.integer("split") == 10);
  CHECK(row.text("threshold") == "1/t");
  CHECK(row.real("pivotal_share") == 0.4);
  CHECK(row.integer("later_pivotal") == 4);
  CHECK(row.real("persistence_ratio") == 0.75);
  CHECK(row.real("every_pivotal_share") == 0.2);
  CHECK(row.integer("every_later_pivotal") == 2);
  CHECK(row.real("every_persistence_ratio") == 0.5);
}

TEST_CASE("attention equal to the threshold is not pivotal", "[analysis]") {
  const Unit unit = uniform_unit({.tokens = 16});
  CHECK(analyse("persistence", unit).at(0).real("pivotal_share") == 0);
  CHECK(analyse("persistence", unit).at(0).real("persistence_ratio") == 1);
  CHECK(analyse("persistence:threshold=0.99/t", unit).at(0).real("pivotal_share") == 1);
  // The last step before the split attends with 1/8.
  CHECK(analyse("persistence:threshold=0.5", unit).at(0).real("pivotal_share") == 1.0 / 8);
  CHECK(analyse("persistence:threshold=0.125", unit).at(0).real("pivotal_share") == 7.0 / 8);
}

TEST_CASE("the persistence curve is persistence at each of its splits", "[analysis]") {
  const Unit unit = random_unit({.tokens = 61, .group = 2}, 4);
  const std::vector<Row> curve = analyse("persistence-curve:points=5,threshold=2/t", unit);
  const std::vector<int> splits{10, 20, 30, 40, 50};
  REQUIRE(curve.size() == 2 * splits.size());
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const std::string split = std::to_string(splits[i % splits.size()]);
    const std::vector<Row> rows = analyse("persistence:threshold=2/t,split=" + split, unit);
    CHECK(curve[i].head == static_cast<int>(i / splits.size()));
    CHECK(curve[i].values == rows[i / splits.size()].values);
  }
}

TEST_CASE("the persistence curve of a short text has each split once", "[analysis]") {
  std::vector<std::int64_t> splits;
  for (const Row& row : analyse("persistence-curve", random_unit({.tokens = 5}, 1))) {
    splits.push_back(row.integer("split"));
  }
  CHECK(splits == std::vector<std::int64_t>{1, 2, 3, 4});
  CHECK(analyse("persistence-curve", random_unit({.tokens = 1}, 1)).empty());
}

TEST_CASE("of one token nothing is pivotal and all persists", "[analysis]") {
  const Unit unit = random_unit({.tokens = 1}, 1);
  const auto [asked, split] = GENERATE(table<std::string, int>({{"0.5", 0}, {"1", 1}}));
  const Row row = analyse("persistence:split=" + asked, unit).at(0);
  CHECK(row.integer("split") == split);
  CHECK(row.real("pivotal_share") == 0);
  CHECK(row.real("persistence_ratio") == 1);
  CHECK(row.real("every_pivotal_share") == 0);
  CHECK(row.real("every_persistence_ratio") == 1);
}

TEST_CASE("a split after the end of the text is refused", "[analysis]") {
  const Unit unit = random_unit({.tokens = 4}, 1);
  CHECK(analyse("persistence:split=4", unit).at(0).integer("split") == 4);
  CHECK_THROWS_AS(analyse("persistence:split=5", unit), UsageError);
  CHECK_THROWS_WITH(analyse("persistence:split=5", unit),
                    Catch::StartsWith("split=5: ") && Catch::Contains("has 4 tokens"));
}

TEST_CASE("what is no threshold and no split is refused by name", "[analysis]") {
  const Unit unit = random_unit({.tokens = 4}, 1);
  const std::string analysis = GENERATE("persistence", "persistence-curve");
  for (const std::string text : {"", "x", "/t", "1/s", "1/t/t", "1 /t", "-1/t", "nan", "2e9/t"}) {
    CAPTURE(analysis, text);
    CHECK_THROWS_AS(analyse(analysis + ":threshold=" + text, unit), UsageError);
  }
  CHECK_THROWS_WITH(analyse(analysis + ":threshold=1/s", unit),
                    Catch::Contains("threshold: '1/s' is no threshold; write 1/t, 2.5/t or 0.02"));
  for (const std::string text : {"", "x", "-1", "0.0", "1.5", "120%", "0.5x"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(analyse("persistence:split=" + text, unit), UsageError);
  }
  CHECK_THROWS_WITH(analyse("persistence:split=1.5", unit), Catch::Contains("split '1.5'"));
  CHECK_THROWS_AS(analyse("persistence-curve:points=0", unit), UsageError);
}

}  // namespace kvsim::analysis_test::persistence_test
