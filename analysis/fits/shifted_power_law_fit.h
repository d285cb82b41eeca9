#pragma once

#include <optional>
#include <span>

#include "analysis/fits/power_law_fit.h"

namespace kvsim {

/// The law of attention scores that Scissorhands assumes (Theorem 4.1, appendix B.3):
/// f(x) = c (x + b)^-k for x in [0, u - b], c = (k - 1) / (b^(1-k) - u^(1-k)). Theorem B.3 needs
/// k > 2 and u >= 5 b, which the fit does not enforce.
struct ShiftedPowerLawFit {
  double exponent;  ///< k >= 1; for k = 1, c = 1 / log(u / b)
  double shift;     ///< b, in the unit of the values
  double upper;     ///< u, in the unit of the values
  double distance;  ///< Kolmogorov-Smirnov distance of the values from the law
  double p_value;   ///< share of synthetic samples that fit worse; the law is plausible from 0.1 on
  /// The best fit is at a limit of the search, so k and b mean little: k = 1 (the density falls
  /// more slowly than 1 / x, or rises), b = 1000 (u - b) (the density falls exponentially, the
  /// limit of k, b -> infinity), or b a tenth of the smallest value or 1e-36 of the largest (no
  /// shift).
  bool at_limit;
};

/// Fits the law by maximum likelihood. u - b is the largest value, as the likelihood falls when the
/// support grows beyond it. The p-value is from a parametric bootstrap that fits each synthetic
/// sample anew (Clauset, Shalizi and Newman 2009, section 4.1). Values that are not positive and
/// finite are ignored (a zero would make the likelihood unbounded, at k = 1 and b -> 0); nullopt if
/// fewer than 10 distinct values are left.
std::optional<ShiftedPowerLawFit> fit_shifted_power_law(std::span<const double> values,
                                                        const Bootstrap& bootstrap = {});

}  // namespace kvsim
