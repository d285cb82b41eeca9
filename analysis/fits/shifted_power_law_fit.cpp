#include "analysis/fits/shifted_power_law_fit.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "analysis/fits/radix_sort.h"
#include "traces/synth/random_stream.h"

namespace kvsim {
namespace {

constexpr double kLeastShift = 1e-36;  // keeps the product in mean_log() finite
constexpr double kMostShift = 1e3;

/// The law for values in [0, 1]. log(1 + x / shift) / height, also in [0, 1], follows an
/// exponential law of rate `decay` restricted to that interval.
struct Law {
  double log_shift;
  double shift;
  double height;          // log(1 + 1 / shift)
  double decay;           // (exponent - 1) * height
  double mass;            // 1 - e^-decay: of the unrestricted exponential law, in the interval
  double log_likelihood;  // mean over the values

  double cumulative(double x) const {
    const double share = std::log1p(x / shift) / height;
    return decay == 0 ? share : -std::expm1(-decay * share) / mass;
  }

  double quantile(double cumulative) const {
    const double share = decay == 0 ? cumulative : -std::log1p(-cumulative * mass) / decay;
    return shift * std::expm1(std::min(share, 1.0) * height);
  }
};

/// Mean of log(1 + x / shift), with one logarithm per product of eight factors.
double mean_log(const std::vector<double>& values, double shift) {
  constexpr std::size_t kFactors = 8;
  const double scale = 1 / shift;
  double sum = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += kFactors) {
    const std::size_t end = std::min(values.size(), begin + kFactors);
    double product = 1;
    for (std::size_t i = begin; i < end; ++i) product *= 1 + values[i] * scale;
    sum += std::log(product);
  }
  return sum / static_cast<double>(values.size());
}

/// The decay at which the mean of an exponential law on [0, 1], 1 / decay - 1 / (e^decay - 1), is
/// `mean`; 0 if that would be negative.
double decay_of_mean(double mean) {
  if (mean >= 0.5) return 0;
  // Newton's method from below the root, which it never passes as the function falls and is convex.
  // The start is below the root as the function is at least 1/2 - decay / 12 and 1 / (2 + decay).
  double decay = std::max(6 - 12 * mean, 1 / mean - 2);
  for (int iteration = 0; iteration < 50; ++iteration) {
    double value = 0;
    double slope = 0;
    if (decay < 0.1) {  // a series, as the differences below lose digits
      const double square = decay * decay;
      value = 0.5 - decay * (1.0 / 12 - square * (1.0 / 720 - square / 30240));
      slope = -1.0 / 12 + square * (1.0 / 240 - square / 6048);
    } else {
      value = 1 / decay - 1 / std::expm1(decay);
      slope = std::pow(2 * std::sinh(decay / 2), -2) - 1 / (decay * decay);
    }
    const double step = (mean - value) / slope;
    decay += step;
    if (!(step > 1e-14 * decay)) break;
  }
  return decay;
}

/// The maximum-likelihood law with a given shift. For a given shift the laws are an exponential
/// family in decay, so the best one has the sample's mean.
Law likeliest(const std::vector<double>& values, double log_shift) {
  const double shift = std::exp(log_shift);
  const double height = std::log1p(1 / shift);
  const double mean = mean_log(values, shift);
  const double decay = decay_of_mean(mean / height);
  const double mass = -std::expm1(-decay);
  const double integral = decay == 0 ? height : height * mass / decay;
  return {.log_shift = log_shift,
          .shift = shift,
          .height = height,
          .decay = decay,
          .mass = mass,
          .log_likelihood = -log_shift - mean * (1 + decay / height) - std::log(integral)};
}

struct Fit {
  Law law;
  bool at_limit;
};

/// The maximum-likelihood law of ascending values up to 1: a coarse search over the shift, to avoid
/// local maxima, then a golden-section search.
Fit fit(const std::vector<double>& values) {
  const double low = std::log(std::max(values.front() / 10, kLeastShift));
  const double high = std::log(kMostShift);
  const auto steps = std::ceil(high - low);
  const double width = (high - low) / steps;
  Law best = likeliest(values, low);
  for (int step = 1; step <= static_cast<int>(steps); ++step) {
    const Law law = likeliest(values, low + step * width);
    if (law.log_likelihood > best.log_likelihood) best = law;
  }

  constexpr double kSection = std::numbers::phi - 1;
  double begin = std::max(low, best.log_shift - width);
  double end = std::min(high, best.log_shift + width);
  Law left = likeliest(values, end - kSection * (end - begin));
  Law right = likeliest(values, begin + kSection * (end - begin));
  while (end - begin > 1e-5) {
    if (left.log_likelihood > right.log_likelihood) {
      end = right.log_shift;
      right = left;
      left = likeliest(values, end - kSection * (end - begin));
    } else {
      begin = left.log_shift;
      left = right;
      right = likeliest(values, begin + kSection * (end - begin));
    }
  }
  const Law law = std::max({best, left, right}, [](const Law& a, const Law& b) {
    return a.log_likelihood < b.log_likelihood;
  });
  const double margin = std::min(law.log_shift - low, high - law.log_shift);
  return {law, law.decay == 0 || margin < 1e-3};
}

double distance(const std::vector<double>& values, const Law& law) {
  std::vector<double> cumulative(values);
  for (double& x : cumulative) x = law.cumulative(x);
  return kolmogorov_smirnov(cumulative);
}

/// Divides ascending values by the largest one.
void scale(std::vector<double>& values) {
  const double largest = values.back();
  for (double& x : values) x /= largest;
}

}  // namespace

std::optional<ShiftedPowerLawFit> fit_shifted_power_law(std::span<const double> values,
                                                        const Bootstrap& bootstrap) {
  std::vector<double> sorted = sorted_for_fit(values);
  if (sorted.empty()) return std::nullopt;
  const double largest = sorted.back();
  scale(sorted);
  const Fit fitted = fit(sorted);
  const Law& law = fitted.law;
  const double observed = distance(sorted, law);

  RandomStream random(bootstrap.seed, {});
  std::vector<double> synthetic(sorted.size());
  int worse = 0;
  for (int sample = 0; sample < bootstrap.samples; ++sample) {
    for (double& x : synthetic) x = law.quantile(random.uniform());
    sort_ascending(synthetic);
    scale(synthetic);
    worse += distance(synthetic, fit(synthetic).law) > observed;
  }
  return ShiftedPowerLawFit{.exponent = 1 + law.decay / law.height,
                            .shift = law.shift * largest,
                            .upper = (1 + law.shift) * largest,
                            .distance = observed,
                            .p_value = worse / static_cast<double>(bootstrap.samples),
                            .at_limit = fitted.at_limit};
}

}  // namespace kvsim
