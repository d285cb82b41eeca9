#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>

#include "tests/analysis/analysed.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::submodularity_test {

using namespace test_support;

const Row& row_of_function(const std::vector<Row>& rows, const std::string& function) {
  return *std::find_if(rows.begin(), rows.end(),
                       [&](const Row& row) { return row.text("function") == function; });
}

TEST_CASE("submodularity: the paper's functions have no violation, and a sum no slack",
          "[analysis]") {
  const Unit unit = random_unit({.tokens = 60, .group = 2}, 4);
  const std::string score = GENERATE("accumulated", "step");
  for (const Row& row : analyse("submodularity:score=" + score, unit)) {
    const std::string& function = row.text("function");
    CAPTURE(function, score);
    CHECK(row.integer("samples") == 8 * 200);
    if (function == "identity") CHECK(row.real("diminished_mean") == Approx(0).margin(1e-12));
    if (function == "sqrt" || function == "log1p") CHECK(row.real("diminished_mean") > 0);
    if (function.starts_with("output")) continue;
    CHECK(row.integer("violations") == 0);
    CHECK(row.real("largest_violation") == 0);
    CHECK(row.integer("decreases") == 0);
  }
}

TEST_CASE("submodularity: values that cancel make a token worth more to a larger set",
          "[analysis]") {
  // Three equal weights and the values 1, -1 and 3: o_t = 1, and with the softmax over S
  //   f: {} 0, {0} 1, {1} -3, {2} -3, {0,1} 0, {0,2} 0, {1,2} 1, {0,1,2} 1.
  // Token 2 adds -3 to {} and 4 to {1}: a violation of 7 times f of all. With the softmax over all
  //   f: {} 0, {0} 5/9, {1} -7/9, {2} 1, {0,1} 0, {0,2} 8/9, {1,2} 8/9, {0,1,2} 1,
  // and token 1 adds -7/9 to {} and 1/9 to {0,2}.
  Unit unit = unit_of_logits(3, [](int, int) { return 0.0; });
  unit.value = Matrix(3, 1);
  unit.value << 1, -1, 3;
  const std::vector<Row> rows = analyse("submodularity:steps=1,samples=1000", unit);
  const Row& output = row_of_function(rows, "output");
  CHECK(output.integer("samples") == 1000);
  CHECK(output.real("largest_violation") == Approx(7).epsilon(1e-5));
  CHECK(output.integer("decreases") > 0);
  CHECK(output.real("largest_decrease") == Approx(1).epsilon(1e-5));  // from {0} to {0,1}
  CHECK(row_of_function(rows, "output-fixed").real("largest_violation") ==
        Approx(8 / 9.0).epsilon(1e-5));
}

TEST_CASE("submodularity: with equal values the output is submodular", "[analysis]") {
  // Any token gives the whole output: it adds |o|^2 to the empty set and nothing to another.
  Unit unit = random_unit({.tokens = 30, .value_dim = 2}, 7);
  unit.value.rowwise() = Eigen::RowVector2f(3, 4);
  const std::vector<Row> rows = analyse("submodularity", unit);
  for (const char* function : {"output", "output-fixed"}) {
    CAPTURE(function);
    CHECK(row_of_function(rows, function).integer("violations") == 0);
    CHECK(row_of_function(rows, function).integer("decreases") == 0);
  }
}

TEST_CASE("submodularity: all that a step sees is what it selects", "[analysis]") {
  // Step 3 sees tokens 2 and 3, which have collected 1.5 and 0.5 of the attention of all steps, 4.
  Unit unit = unit_of_logits(4, [](int, int) { return 0.0; });
  const auto selected = std::make_shared<SelectedTokens>();
  for (const std::vector<std::int32_t>& tokens :
       std::vector<std::vector<std::int32_t>>{{0}, {1}, {2}, {2, 3}}) {
    selected->add(tokens);
  }
  unit.selected = selected;
  const std::vector<Row> rows = analyse("submodularity:steps=1", unit);
  const double of_all = std::sqrt(2.0);
  CHECK(row_of_function(rows, "sqrt").real("diminished_mean") ==
        Approx((std::sqrt(1.5) + std::sqrt(0.5) - of_all) / of_all));
}

/// f of every subset of the tokens of one step, by its definition; a bit per token.
std::map<std::string, std::vector<double>> values_of_sets(const Unit& unit, int t) {
  const ReferenceAttention attention(unit, 0);
  std::vector<double> score(t + 1, 0);
  for (int s = 0; s <= t; ++s) {
    for (int j = 0; j <= s; ++j) score[j] += attention.full[s][j];
  }
  std::map<std::string, std::vector<double>> values;
  for (unsigned set = 0; set < 1U << (t + 1); ++set) {
    std::vector<int> tokens;
    double sum = 0;
    for (int j = 0; j <= t; ++j) {
      if ((set >> j & 1U) == 0) continue;
      tokens.push_back(j);
      sum += score[j];
    }
    std::vector<double> renormalised(unit.value.cols(), 0);
    std::vector<double> fixed(unit.value.cols(), 0);
    if (!tokens.empty()) {
      renormalised = weighted_value(unit, tokens, softmax(attention.logit[t], tokens));
      std::vector<double> weight;
      for (const int j : tokens) weight.push_back(attention.full[t][j]);
      fixed = weighted_value(unit, tokens, weight);
    }
    const auto closeness = [&](std::vector<double> output) {
      const double whole = norm(attention.output[t]);
      for (std::size_t d = 0; d < output.size(); ++d) output[d] -= attention.output[t][d];
      return whole * whole - norm(output) * norm(output);
    };
    values["identity"].push_back(sum);
    values["sqrt"].push_back(std::sqrt(sum));
    values["log1p"].push_back(std::log1p(sum));
    values["output"].push_back(tokens.empty() ? 0 : closeness(renormalised));
    values["output-fixed"].push_back(closeness(fixed));
  }
  return values;
}

TEST_CASE("submodularity: enough samples find what all sets of a small text have", "[analysis]") {
  const int t = 4;
  const Unit unit = random_unit({.tokens = t + 1}, GENERATE(range(1, 4)));
  const std::vector<Row> rows = analyse("submodularity:steps=1,samples=20000", unit);
  for (const auto& [function, f] : values_of_sets(unit, t)) {
    double violation = 0;
    double decrease = 0;
    for (unsigned large = 1; large < f.size(); ++large) {
      for (unsigned small = 0; small < large; ++small) {
        if ((small & large) != small) continue;
        for (int x = 0; x <= t; ++x) {
          const unsigned with_x = 1U << x;
          if ((large & with_x) != 0) continue;
          const double to_large = f[large | with_x] - f[large];
          const double to_small = f[small | with_x] - f[small];
          violation = std::max(violation, to_large - to_small);
          decrease = std::max(decrease, -to_large);
        }
      }
    }
    CAPTURE(function);
    const Row& row = row_of_function(rows, function);
    CHECK(row.real("largest_violation") == Approx(violation / f.back()).epsilon(1e-4).margin(1e-9));
    CHECK(row.real("largest_decrease") == Approx(decrease / f.back()).epsilon(1e-4).margin(1e-9));
  }
}

TEST_CASE("submodularity: another seed draws other samples", "[analysis]") {
  const Unit unit = random_unit({.tokens = 40}, 2);
  const auto diminished = [&](std::int64_t seed) {
    const std::vector<Row> rows = analyse("submodularity:samples=20", unit, {}, Mode::stream, seed);
    return row_of_function(rows, "sqrt").real("diminished_mean");
  };
  CHECK(diminished(1) == diminished(1));
  CHECK(diminished(1) != diminished(2));
}

}  // namespace kvsim::analysis_test::submodularity_test
