#include "analysis/fits/power_law_fit.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numbers>

#include "traces/synth/random_stream.h"

namespace kvsim::power_law_fit_test {

using Values = std::vector<double>;

constexpr Bootstrap kNoPValue = {.samples = 0};

/// `each` uniform values below 1 and as many that follow a power law from 1 on.
Values planted(double exponent, int each, std::uint64_t seed) {
  RandomStream random(seed, {1});
  Values values;
  for (int i = 0; i < each; ++i) {
    values.push_back(random.uniform());
    values.push_back(std::pow(random.uniform(), -1 / (exponent - 1)));
  }
  return values;
}

Values exponential(int count, std::uint64_t seed) {
  RandomStream random(seed, {2});
  Values values(static_cast<std::size_t>(count));
  for (double& x : values) x = random.exponential(1);
  return values;
}

Values log_normal(int count, std::uint64_t seed) {
  RandomStream random(seed, {3});
  Values values(static_cast<std::size_t>(count));
  for (double& x : values) x = std::exp(random.normal());
  return values;
}

Values powers_of_two(int count) {
  Values values;
  for (int i = 0; i < count; ++i) values.push_back(std::ldexp(1, i));
  return values;
}

Values fields(const PowerLawFit& fit) {
  return {fit.exponent,
          fit.exponent_error,
          fit.smallest,
          static_cast<double>(fit.tail),
          fit.distance,
          fit.p_value,
          fit.over_exponential.log_ratio,
          fit.over_exponential.significance,
          fit.over_log_normal.log_ratio,
          fit.over_log_normal.significance};
}

TEST_CASE("the distance counts both sides of a step", "[power_law]") {
  CHECK(kolmogorov_smirnov(Values{0.5}) == 0.5);
  CHECK(kolmogorov_smirnov(Values{0.25}) == 0.75);
  CHECK(kolmogorov_smirnov(Values{0.25, 0.75}) == 0.25);
  CHECK(kolmogorov_smirnov(Values{0.25, 0.5}) == 0.5);
  CHECK(kolmogorov_smirnov(Values{0.75, 0.75, 0.75, 0.75}) == 0.75);
}

// Ten powers of two allow no smallest value but 1. Their logarithms sum to 45 log 2, so the law
// gives the values below 2^i the share 1 - e^(-2i/9), which is farthest from i/10 at i = 4.
TEST_CASE("ten powers of two have the fit computed by hand", "[power_law]") {
  const auto fit = fit_power_law(powers_of_two(10), kNoPValue);
  REQUIRE(fit);
  const double rate = 10 / (45 * std::numbers::ln2);
  CHECK(fit->exponent == Approx(1 + rate));
  CHECK(fit->exponent_error == Approx(rate / std::sqrt(10)));
  CHECK(fit->smallest == 1);
  CHECK(fit->tail == 10);
  CHECK(fit->distance == Approx(1 - std::exp(-8.0 / 9) - 0.4));
  CHECK(std::isnan(fit->p_value));
  // The exponential law of x - 1 has the mean 1013 / 10.
  CHECK(fit->over_exponential.log_ratio ==
        Approx(10 * std::log(rate * 101.3) - 45 * std::numbers::ln2));
}

// Twenty samples each; an estimate is expected within two standard errors in 19 of them.
TEST_CASE("a planted power law is recovered", "[power_law]") {
  const double exponent = GENERATE(1.8, 2.5, 3.5);
  CAPTURE(exponent);
  int within = 0;
  double sum = 0;
  Values smallest;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto fit = fit_power_law(planted(exponent, 1000, seed), kNoPValue);
    REQUIRE(fit);
    within += std::abs(fit->exponent - exponent) < 2 * fit->exponent_error;
    sum += fit->exponent;
    smallest.push_back(fit->smallest);
  }
  CHECK(within >= 18);
  CHECK(sum / 20 == Approx(exponent).epsilon(0.01));
  std::sort(smallest.begin(), smallest.end());
  CHECK(smallest.front() > 0.7);  // the body is hard to tell from a law of exponent 1.8
  CHECK(smallest[10] == Approx(1).epsilon(0.25));
  CHECK(smallest.back() < 5);
}

// A right p-value is at least 0.1 in nine of ten samples; 15 of 20 or more in 99 of 100 cases.
TEST_CASE("a planted power law is plausible", "[power_law]") {
  const double exponent = GENERATE(1.8, 2.5, 3.5);
  CAPTURE(exponent);
  int plausible = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    plausible += fit_power_law(planted(exponent, 100, seed), {.samples = 50})->p_value >= 0.1;
  }
  CHECK(plausible >= 15);
}

TEST_CASE("a law of small exponent over 30 decades is recovered", "[power_law]") {
  RandomStream random(0, {4});
  Values values(1000);
  for (double& x : values) x = 1e-30 * std::pow(random.uniform(), -10);
  const auto fit = fit_power_law(values, {.samples = 20});
  REQUIRE(fit);
  CHECK(std::abs(fit->exponent - 1.1) < 3 * fit->exponent_error);
  CHECK(fit->p_value >= 0.1);
  CHECK(std::isfinite(fit->over_exponential.log_ratio));
  CHECK(fit->over_exponential.significance < 0.1);
  CHECK(fit->over_log_normal.significance > 0.1);
}

TEST_CASE("uniform data are rejected", "[power_law]") {
  RandomStream random(0, {5});
  Values values(500);
  for (double& x : values) x = random.uniform();
  const auto fit = fit_power_law(values, {.samples = 50});
  REQUIRE(fit);
  CHECK(fit->p_value < 0.1);
  CHECK(fit->over_exponential.log_ratio < 0);
  CHECK(fit->over_log_normal.log_ratio < 0);
}

/// The p-value by its definition: every sample is fitted.
double p_value_by_fits(const Values& values, const PowerLawFit& fit, const Bootstrap& bootstrap) {
  Values sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t begin = sorted.size() - static_cast<std::size_t>(fit.tail);
  RandomStream random(bootstrap.seed, {});
  int worse = 0;
  for (int sample = 0; sample < bootstrap.samples; ++sample) {
    Values synthetic;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const std::size_t pick = random.below(sorted.size());
      synthetic.push_back(pick < begin
                              ? sorted[pick]
                              : sorted[begin] * std::exp(random.exponential(fit.exponent - 1)));
    }
    worse += fit_power_law(synthetic, kNoPValue)->distance > fit.distance;
  }
  return worse / static_cast<double>(bootstrap.samples);
}

TEST_CASE("the p-value counts the samples whose own fit is farther", "[power_law]") {
  constexpr Bootstrap kBootstrap{.samples = 25, .seed = 3};
  for (const Values& values : {planted(2.5, 150, 1), planted(2, 40, 2), exponential(300, 2),
                               log_normal(200, 3), exponential(60, 4)}) {
    const auto fit = fit_power_law(values, kBootstrap);
    CHECK(fit->p_value == p_value_by_fits(values, *fit, kBootstrap));
  }
}

// A tail far enough out resembles a power law, so that not every sample is recognised.
TEST_CASE("what passes for a power law of other samples is the smaller part of them",
          "[power_law]") {
  const auto passes = [](const PowerLawFit& fit, const LikelihoodRatio& ratio) {
    return fit.p_value >= 0.1 && !(ratio.log_ratio < 0 && ratio.significance < 0.1);
  };
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto flat = fit_power_law(exponential(5000, seed), {.samples = 15});
    if (passes(*flat, flat->over_exponential)) CHECK(flat->tail < 5000 / 4);
    const auto curved = fit_power_law(log_normal(5000, seed), {.samples = 15});
    if (passes(*curved, curved->over_log_normal)) CHECK(curved->tail < 5000 / 4);
    const auto planted_law = fit_power_law(planted(2.5, 5000, seed), {.samples = 15});
    CHECK(planted_law->tail > 5000 / 4);
  }
}

// The likelihood of a log-normal restricted to x >= s depends on the mean and the mean square of
// log(x / s) alone.
TEST_CASE("no log-normal is likelier than the one compared with", "[power_law]") {
  const std::uint64_t seed = GENERATE(0, 1, 2);
  const Values values = log_normal(2000, seed);
  const auto fit = fit_power_law(values, kNoPValue);
  REQUIRE(fit);
  double mean = 0;
  double mean_square = 0;
  for (const double x : values) {
    if (x < fit->smallest) continue;
    const double y = std::log(x / fit->smallest);
    mean += y / fit->tail;
    mean_square += y * y / fit->tail;
  }
  double best = -std::numeric_limits<double>::infinity();
  for (int i = -300; i < 20; ++i) {
    for (int j = 10; j < 400; ++j) {
      const double centre = 0.1 * i;
      const double deviation = 0.02 * j;
      const double square = mean_square - 2 * mean * centre + centre * centre;
      const double mass = std::erfc(-centre / (deviation * std::numbers::sqrt2)) / 2;
      if (mass < 1e-300) continue;
      const double log_likelihood = -square / (2 * deviation * deviation) -
                                    std::log(deviation * std::sqrt(2 * std::numbers::pi) * mass);
      best = std::max(best, log_likelihood * fit->tail);
    }
  }
  const double rate = fit->exponent - 1;
  const double likeliest =
      (std::log(rate) - rate * mean) * fit->tail - fit->over_log_normal.log_ratio;
  CHECK(best <= likeliest + 1e-9);
  CHECK(best == Approx(likeliest).margin(0.05));
  CHECK(fit->over_log_normal.log_ratio < 0);
}

TEST_CASE("equal values have equal fits, in any order and next to values ignored", "[power_law]") {
  Values values = planted(2.5, 100, 0);
  const Values expected = fields(*fit_power_law(values, {.samples = 20, .seed = 3}));
  CHECK(fields(*fit_power_law(values, {.samples = 20, .seed = 3})) == expected);
  std::reverse(values.begin(), values.end());
  values.insert(values.begin() + 5, {0, -1, std::numeric_limits<double>::infinity(),
                                     std::numeric_limits<double>::quiet_NaN()});
  CHECK(fields(*fit_power_law(values, {.samples = 20, .seed = 3})) == expected);
}

TEST_CASE("ties are fitted and the tail begins at one", "[power_law]") {
  Values values = planted(2.5, 500, 0);
  for (double& x : values) x = std::ceil(4 * x);
  const auto fit = fit_power_law(values, {.samples = 20});
  REQUIRE(fit);
  CHECK(fit->tail ==
        std::count_if(values.begin(), values.end(), [&](double x) { return x >= fit->smallest; }));
  CHECK(std::isfinite(fit->exponent));
}

TEST_CASE("fewer than ten distinct positive values are not fitted", "[power_law]") {
  CHECK_FALSE(fit_power_law({}));
  CHECK_FALSE(fit_power_law(Values(1000, 0.25)));
  CHECK_FALSE(fit_power_law(powers_of_two(9)));
  Values repeated = powers_of_two(9);
  for (int doubling = 0; doubling < 3; ++doubling) {
    const Values copy = repeated;
    repeated.insert(repeated.end(), copy.begin(), copy.end());
  }
  repeated.insert(repeated.end(), 5, 0);
  CHECK_FALSE(fit_power_law(repeated));
  CHECK(fit_power_law(powers_of_two(10)));
}

}  // namespace kvsim::power_law_fit_test
