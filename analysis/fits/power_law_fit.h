#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvsim {

/// How a p-value is estimated.
struct Bootstrap {
  int samples = 100;       ///< synthetic samples; the p-value's standard error is at most
                           ///< 0.5 / sqrt(samples); 0: the p-value is NaN
  std::uint64_t seed = 0;  ///< the same seed gives the same p-value
};

/// Vuong's likelihood ratio test of two laws (Clauset, Shalizi and Newman 2009, section 5).
struct LikelihoodRatio {
  double log_ratio;     ///< sum over the values; positive favours the first law
  double significance;  ///< p-value of the sign; below 0.1 the sign is significant
};

/// The maximum-likelihood power law p(x) = (a - 1) / s * (x / s)^-a, x >= s, of the values of a
/// sample that are at least s.
struct PowerLawFit {
  static constexpr double kPlausible = 0.1;  ///< the least p-value (section 4.1)

  double exponent;        ///< a
  double exponent_error;  ///< standard error, (a - 1) / sqrt(tail)
  double smallest;        ///< s, in the unit of the values
  int tail;  ///< number of values >= s; a small share of all says little, as the far tails of other
             ///< laws resemble a power law too
  double distance;  ///< Kolmogorov-Smirnov distance of the tail from the law
  double p_value;   ///< share of synthetic samples that fit worse; the law is plausible from 0.1 on
  LikelihoodRatio over_exponential;  ///< both laws restricted to x >= s
  /// Likewise. Never above 0 but for rounding, as the power law is a limit of log-normals
  /// restricted to x >= s: it can reject the power law but not support it.
  LikelihoodRatio over_log_normal;
};

/// Fits a continuous power law as in Clauset, Shalizi and Newman, "Power-law distributions in
/// empirical data", SIAM Review 51 (2009). a: eq. 3.1. s: the candidate with the least distance
/// (section 3.3); candidates are at most 500 distinct values, evenly spaced in rank, that leave a
/// tail of 50 values, which eq. 3.1 needs (section 3.2), or for fewer than 100 values of half of
/// them, but at least 10. p-value: section 4.1, with s fitted anew to each synthetic sample. Values
/// that are not positive and finite are ignored; nullopt if fewer than 10 distinct values are left.
std::optional<PowerLawFit> fit_power_law(std::span<const double> values,
                                         const Bootstrap& bootstrap = {});

/// "plausible" only if p_value is 0.1 or more, no alternative fits significantly better (0.1) and
/// the tail has 50 values; else why not.
std::string verdict_of(const PowerLawFit& fit);

/// The positive finite values in ascending order; empty if fewer than 10 of them are distinct, too
/// few for a fit.
std::vector<double> sorted_for_fit(std::span<const double> values);

/// Kolmogorov-Smirnov distance of a sample from a law; `cumulative` is the law's distribution
/// function at the sample's values in ascending order. Values may be equal.
double kolmogorov_smirnov(std::span<const double> cumulative);

}  // namespace kvsim
