#pragma once

#include <optional>
#include <span>

namespace kvsim {

/// y = intercept + slope * x.
struct LineFit {
  double slope = 0;
  double intercept = 0;
  double slope_error = 0;  ///< standard error of the slope
};

/// Least squares; nullopt for fewer than three points or if all `x` are equal.
std::optional<LineFit> fit_line(std::span<const double> x, std::span<const double> y);

}  // namespace kvsim
