#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <random>
#include <set>

#include "sim/base/errors.h"
#include "tests/analysis/analysed.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::attention_maps_test {

using namespace test_support;

using Steps = std::vector<int>;

Steps steps_shown(const std::string& positions, int tokens) {
  std::set<int> steps;
  const Unit unit = uniform_unit({.tokens = tokens});
  for (const Row& row : analyse("attention-maps:positions=" + positions, unit)) {
    steps.insert(static_cast<int>(row.integer("step")));
  }
  return {steps.begin(), steps.end()};
}

// Attends evenly to the tokens that `attended` says, and to hardly any others.
template <class Attended>
Unit attending_unit(int tokens, Attended attended) {
  return unit_of_logits(
      tokens, [&](int t, int j) { return std::set<int>(attended(t)).contains(j) ? 10 : 0; });
}

TEST_CASE("a number of positions is spread over the second half and ends with the last step",
          "[analysis]") {
  CHECK(steps_shown("3", 300) == Steps{199, 249, 299});
  CHECK(steps_shown("2", 9) == Steps{5, 8});
  CHECK(steps_shown("1", 40) == Steps{39});
  CHECK(steps_shown("5", 9) == Steps{4, 5, 6, 7, 8});
  CHECK(steps_shown("3", 1) == Steps{0});
}

TEST_CASE("positions are taken as listed, in order and once", "[analysis]") {
  CHECK(steps_shown("7/3/7", 10) == Steps{3, 7});
  CHECK(steps_shown("9/0", 10) == Steps{0, 9});
}

TEST_CASE("a position after the end of the text is refused", "[analysis]") {
  const Unit unit = random_unit({.tokens = 10}, 1);
  const std::string analysis = GENERATE("attention-maps", "repetition");
  CHECK_THROWS_AS(analyse(analysis + ":positions=0/10", unit), UsageError);
  CHECK_THROWS_WITH(
      analyse(analysis + ":positions=0/400/9", unit),
      Catch::StartsWith("positions=0/400/9: ") && Catch::Contains("has 10 tokens, so no step 400"));
}

TEST_CASE("what is no position is refused", "[analysis]") {
  const Unit unit = random_unit({.tokens = 10}, 1);
  const std::string analysis = GENERATE("attention-maps", "repetition");
  for (const std::string text : {"", "x", "-3", "1.5", "3/", "/3", "1//2", "1/x", "3x", "4e9"}) {
    CAPTURE(analysis, text);
    CHECK_THROWS_AS(analyse(analysis + ":positions=" + text, unit), UsageError);
  }
  CHECK_THROWS_WITH(
      analyse(analysis + ":positions=1/x", unit),
      Catch::Contains("positions: '1/x' is neither a number of positions nor positions as in"));
}

TEST_CASE("an attention map is the attention of its steps", "[analysis]") {
  Unit unit = random_unit({.tokens = 90, .group = 2}, 5);
  if (GENERATE(false, true)) unit.sliding_window = 11;
  if (GENERATE(false, true)) unit.sink_logit = {0.F, 5.F};
  const std::vector<Row> rows = analyse("attention-maps:positions=4/70/89", unit);
  std::size_t i = 0;
  for (int head = 0; head < 2; ++head) {
    const ReferenceAttention attention(unit, head);
    for (const int step : {4, 70, 89}) {
      for (int token = 0; token <= step; ++token, ++i) {
        REQUIRE(i < rows.size());
        CAPTURE(head, step, token);
        CHECK(rows[i].head == head);
        CHECK(rows[i].integer("step") == step);
        CHECK(rows[i].integer("token") == token);
        const double expected = attention.full[step][token];
        CHECK(rows[i].real("attention") == Approx(expected).epsilon(1e-4).margin(1e-12));
        CHECK(rows[i].integer("significant") == (expected > 1.0 / (step + 1)));
      }
    }
  }
  CHECK(i == rows.size());
}

TEST_CASE("a level is another doubling of average attention", "[analysis]") {
  // Twelve of sixteen tokens share what the four leave.
  const std::vector<double> share{0.45, 0.2, 0.1, 0.0626};
  const Unit unit = unit_of_logits(16, [&](int, int j) {
    return std::log(static_cast<std::size_t>(j) < share.size() ? share[j] : 0.1874 / 12);
  });
  std::vector<std::int64_t> levels, significant;
  for (const Row& row : analyse("attention-maps:positions=1", unit)) {
    levels.push_back(row.integer("level"));
    significant.push_back(row.integer("significant"));
  }
  CHECK(levels == std::vector<std::int64_t>{3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(significant == std::vector<std::int64_t>{1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("levels end with 8", "[analysis]") {
  Unit unit = random_unit({.tokens = 600, .head_dim = 1}, 1);
  unit.query[0].setConstant(1);
  unit.key.setZero();
  unit.key(3) = 40;
  const auto level_at = [&](int step) {
    const std::string positions = std::to_string(step) + "/" + std::to_string(step);
    return analyse("attention-maps:positions=" + positions, unit).at(3).integer("level");
  };
  CHECK(level_at(99) == 7);
  CHECK(level_at(149) == 8);
  CHECK(level_at(599) == 8);
}

TEST_CASE("steps that attend to the same three tokens repeat each other", "[analysis]") {
  const Unit unit = attending_unit(60, [](int) { return std::set<int>{5, 11, 20}; });
  const std::vector<Row> rows = analyse("repetition", unit);
  REQUIRE(rows.size() == 3);
  const std::vector<std::pair<int, int>> pairs{{39, 49}, {39, 59}, {49, 59}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].integer("step") == pairs[i].first);
    CHECK(rows[i].integer("other_step") == pairs[i].second);
    CHECK(rows[i].real("jaccard") == 1);
    CHECK(rows[i].integer("significant") == 3);
    CHECK(rows[i].integer("other_significant") == 3);
    CHECK(rows[i].integer("shared") == 3);
    CHECK(rows[i].real("expected_shared") == Approx(9.0 / (pairs[i].first + 1)));
  }
}

TEST_CASE("two steps are compared over the tokens that both see", "[analysis]") {
  const Unit unit = attending_unit(50, [](int t) {
    return t < 45 ? std::set<int>{1, 2} : std::set<int>{2, 3, 39, 40, 46};
  });
  const Row row = analyse("repetition:positions=39/49", unit).at(0);
  CHECK(row.integer("significant") == 2);
  CHECK(row.integer("other_significant") == 3);
  CHECK(row.integer("shared") == 1);
  CHECK(row.real("jaccard") == 1.0 / 4);
  CHECK(row.real("expected_shared") == 6.0 / 40);
}

TEST_CASE("steps that find nothing significant agree", "[analysis]") {
  for (const Row& row : analyse("repetition", uniform_unit({.tokens = 30, .group = 2}))) {
    CHECK(row.real("jaccard") == 1);
    CHECK(row.integer("significant") == 0);
    CHECK(row.integer("shared") == 0);
    CHECK(row.real("expected_shared") == 0);
  }
}

TEST_CASE("steps that attend at random share as many tokens as expected", "[analysis]") {
  std::mt19937 bits(3);
  const Unit unit = unit_of_logits(200, [&](int, int) { return 3.0 * (bits() % 1000) / 1000; });
  double shared = 0, expected = 0, jaccard = 0;
  const std::vector<Row> rows = analyse("repetition:positions=20", unit);
  REQUIRE(rows.size() == 190);
  for (const Row& row : rows) {
    shared += static_cast<double>(row.integer("shared"));
    expected += row.real("expected_shared");
    jaccard += row.real("jaccard") / static_cast<double>(rows.size());
  }
  CHECK(shared == Approx(expected).epsilon(0.03));
  CHECK(jaccard < 0.4);
}

TEST_CASE("under a sliding window repetition looks at what both steps see", "[analysis]") {
  Unit unit = test_support::uniform_unit({.tokens = 60});
  unit.sliding_window = 10;
  const Row apart = analyse("repetition:positions=30/50", unit).at(0);
  CHECK(apart.integer("significant") == 0);
  CHECK(apart.real("jaccard") == 1);
  CHECK(apart.real("expected_shared") == 0);
  // Tokens 26 to 30 are seen by both, and all that is seen is above 1 / (t + 1).
  const Row near = analyse("repetition:positions=30/35", unit).at(0);
  CHECK(near.integer("significant") == 5);
  CHECK(near.integer("shared") == 5);
}

TEST_CASE("where the model selects, repetition looks at what both steps select", "[analysis]") {
  Unit unit = test_support::uniform_unit({.tokens = 60});
  const auto selected = std::make_shared<SelectedTokens>();
  for (std::int32_t step = 0; step < 60; ++step) {
    std::vector<std::int32_t> tokens{step};
    if (step == 30) tokens = {2, 3, 5, 7, 11};
    if (step == 50) tokens = {3, 4, 5, 6, 11, 40};
    selected->add(tokens);
  }
  unit.selected = selected;
  const Row row = analyse("repetition:positions=30/50", unit).at(0);
  CHECK(row.integer("significant") == 3);
  CHECK(row.integer("other_significant") == 3);
  CHECK(row.integer("shared") == 3);
  CHECK(row.real("jaccard") == 1);
}

TEST_CASE("more positions than the second half has are all of it", "[analysis]") {
  const Unit unit = test_support::uniform_unit({.tokens = 9});
  CHECK(analyse("attention-maps:positions=2000000000", unit).size() == 5 + 6 + 7 + 8 + 9);
}

}  // namespace kvsim::analysis_test::attention_maps_test
