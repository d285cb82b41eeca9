#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvsim {

/// How a p-value is estimated. The same seed gives the same p-value.
struct Bootstrap {
  int samples = 100;  ///< synthetic samples; the p-value's standard error is 0.5 / sqrt(samples) at
                      ///< most, and without any it is NaN
  std::uint64_t seed = 0;
};

/// Likelihoods of two laws compared by Vuong's test (Clauset, Shalizi and Newman 2009, section 5).
struct LikelihoodRatio {
  double log_ratio;     ///< sum over the values; positive favours the first law
  double significance;  ///< chance of a ratio this far from 0 were the laws equally good; below 0.1
                        ///< the sign can be trusted
};

/// The power law p(x) = (a - 1) / s * (x / s)^-a, x >= s, that is likeliest for the values of a
/// sample from s on.
struct PowerLawFit {
  double exponent;        ///< a
  double exponent_error;  ///< standard error, (a - 1) / sqrt(tail)
  double smallest;        ///< s, in the unit of the values
  int tail;  ///< how many values are at least s; that few of many follow a power law says little,
             ///< as the tail of other laws resembles one far enough out
  double distance;  ///< Kolmogorov-Smirnov distance of the tail from the law
  double p_value;   ///< share of synthetic samples that fit worse; the law is plausible from 0.1 on
  LikelihoodRatio over_exponential;  ///< both laws restricted to x >= s
  /// Likewise. Never above 0 but for rounding: the power law is a limit of log-normals restricted
  /// to x >= s, so that this ratio can speak against the power law or be insignificant, but not
  /// speak for it.
  LikelihoodRatio over_log_normal;
};

/// Fits a continuous power law as in Clauset, Shalizi and Newman, "Power-law distributions in
/// empirical data", SIAM Review 51 (2009): a by their eq. 3.1; s where the distance is least
/// (section 3.3), tried at no more than 500 of the distinct values, evenly spaced in rank, that
/// leave a tail of 50 values, which eq. 3.1 needs (section 3.2), or of half of them if there are
/// less than 100, but of 10; the p-value by their section 4.1, each synthetic sample with an s of
/// its own. Values that are not positive and finite are ignored. Nothing if fewer than 10 distinct
/// values are left.
std::optional<PowerLawFit> fit_power_law(std::span<const double> values,
                                         const Bootstrap& bootstrap = {});

/// The positive finite values in ascending order; none if fewer than 10 of them are distinct, which
/// are too few to fit a law to.
std::vector<double> sorted_for_fit(std::span<const double> values);

/// Kolmogorov-Smirnov distance of a sample from a law whose distribution function at the values in
/// ascending order is `cumulative`. Values may be equal.
double kolmogorov_smirnov(std::span<const double> cumulative);

}  // namespace kvsim
