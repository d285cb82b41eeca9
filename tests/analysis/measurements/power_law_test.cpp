#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/analysis/analysed.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::power_law_test {

using test_support::unit_of_logits;

/// Scores drawn independently, by inversion of their distribution function.
template <class Inverse>
Unit drawn_unit(int tokens, Inverse inverse) {
  std::mt19937_64 bits(3);
  return unit_of_logits(tokens, [&](int, int) {
    return std::log(inverse((static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53));
  });
}

Row fit(const Unit& unit, const std::string& of, const std::string& form) {
  for (const Row& row : analyse("power-law:sample=2000,bootstrap=20", unit)) {
    if (row.text("of") == of && row.text("form") == form) return row;
  }
  throw std::logic_error("no such row");
}

TEST_CASE("power-law: planted attention gives back its exponent", "[analysis]") {
  // P(x > m) = m^-1.5 is the density m^-2.5. Dividing by a row's sum and multiplying by its length
  // spreads the unit of the values a little, not the exponent.
  const Unit unit = drawn_unit(600, [](double u) { return std::pow(u, -1 / 1.5); });
  const Row row = fit(unit, "attention", "plain");
  CHECK(row.real("exponent") == Approx(2.5).epsilon(0.08));
  CHECK(row.real("exponential_ratio") > 0);
  CHECK(row.integer("num_values") == Approx(2000).epsilon(0.1));
}

TEST_CASE("power-law: planted shifted attention gives back k and u / b", "[analysis]") {
  const Unit unit = drawn_unit(600, [](double u) { return 1 / std::sqrt(u) - 1 + 1e-12; });
  const Row row = fit(unit, "attention", "shifted");
  CHECK(row.text("verdict") == "plausible");
  CHECK(row.real("exponent") == Approx(3).epsilon(0.15));
  CHECK(row.integer("theorem_range") == 1);
}

TEST_CASE("power-law: attention that is none is not taken for one", "[analysis]") {
  const Unit exponential = drawn_unit(600, [](double u) { return -std::log(u); });
  const Row row = fit(exponential, "attention", "plain");
  // At best it retreats into a short tail.
  CHECK(
      (row.text("verdict") != "plausible" || 4 * row.integer("tail") < row.integer("num_values")));
  const Unit uniform = drawn_unit(600, [](double u) { return u; });
  CHECK(fit(uniform, "attention", "plain").text("verdict") != "plausible");
  CHECK(fit(uniform, "attention", "shifted").text("verdict") != "plausible");
}

TEST_CASE("power-law: accumulated scores follow the weights of their tokens", "[analysis]") {
  // A token's accumulated score is its weight times a smooth function of when it arrived; the last
  // tokens, which arrive late, are kept light.
  std::mt19937_64 bits(5);
  std::vector<double> weight;
  for (int j = 0; j < 900; ++j) {
    const double u = (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53;
    weight.push_back(j < 600 ? std::log(std::pow(u, -0.5)) : -6.0);
  }
  const Unit unit = unit_of_logits(900, [&](int, int j) { return weight[j]; });
  CHECK(fit(unit, "accumulated", "plain").real("exponent") == Approx(3).epsilon(0.2));
}

TEST_CASE("power-law: equal scores cannot be fitted and say so", "[analysis]") {
  const Unit unit = test_support::uniform_unit({.tokens = 8});
  const Row row = fit(unit, "attention", "plain");
  CHECK(row.text("verdict") == "too few values");
  CHECK(row.is_null("exponent"));
}

}  // namespace kvsim::analysis_test::power_law_test
