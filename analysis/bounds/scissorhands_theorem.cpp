#include "analysis/bounds/scissorhands_theorem.h"

#include <cmath>

namespace kvsim {

// The integral of x f(x) up to the quantile of the missing share, over the integral to the end. g
// is the antiderivative of x f(x) up to a factor (appendix B.3), with y = (x + b) / b so that no
// power overflows.
double loss_of_law(const AssumedLaw& law, double share) {
  const double k = law.k;
  const double end = law.u / law.b;
  const double quantile = std::pow(1 - (1 - share) * (1 - std::pow(end, 1 - k)), 1 / (1 - k));
  const auto g = [&](double y) { return -std::pow(y, 1 - k) * ((k - 1) * (y - 1) + 1); };
  return (g(quantile) - g(1)) / (g(end) - g(1));
}

double delta_share(const AssumedLaw& law) {
  const double ratio = law.u / law.b;
  const double tail = std::pow(ratio, 1 - law.k);
  return 1 - (law.k - 1) * tail * (ratio - 1) / (1 - tail);
}

ScissorhandsTheorem scissorhands_theorem(const AssumedLaw& law, double share, double epsilon,
                                         int first, int last) {
  const double k = law.k;
  const double x = std::pow((1 - epsilon) / (share - epsilon), 1 / (k - 1));
  const double scale = 1 / ((1 - epsilon) * (1 - epsilon));
  const double factor = (1 - share) * scale * (k - (k - 1) * x);
  const double reached = scale * ((1 - share) - (k - 1) * (share - epsilon) * (x - 1));
  const double spread = epsilon * law.b / ((k - 2) * (law.u - law.b));
  const double missing = (1 - share) / (1 - epsilon);
  return {factor / 0.98, 2.1 * factor, reached / delta_share(law),
          1 - last * std::exp(-spread * spread * (first - 1)) -
              last * std::exp(-2 * missing * missing * (first - 1))};
}

}  // namespace kvsim
