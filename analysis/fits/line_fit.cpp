#include "analysis/fits/line_fit.h"

#include <cmath>
#include <numeric>

namespace kvsim {

std::optional<LineFit> fit_line(std::span<const double> x, std::span<const double> y) {
  if (x.size() < 3) return std::nullopt;
  const auto n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xx = 0;
  double xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (xx == 0) return std::nullopt;
  LineFit line{.slope = xy / xx, .intercept = mean_y - xy / xx * mean_x};
  double residual = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double off = y[i] - line.intercept - line.slope * x[i];
    residual += off * off;
  }
  line.slope_error = std::sqrt(residual / (n - 2) / xx);
  return line;
}

}  // namespace kvsim
