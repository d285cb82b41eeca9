#include "analysis/bounds/scissorhands_theorem.h"

#include <cmath>

namespace kvsim {

namespace {

/// The share of the attention mass in the smallest scores, which are a share 1 - `share` of all:
/// the integral of x f(x) up to that quantile, over the integral to the end. g is the
/// antiderivative of x f(x) up to a factor (appendix B.3).
double loss_of(const AssumedLaw& law, double share) {
  const double k = law.k;
  const double b = law.b;
  const double u = law.u;
  const double start = std::pow(b, 1 - k);
  const double quantile =
      std::pow(start - (1 - share) * (start - std::pow(u, 1 - k)), 1 / (1 - k)) - b;
  const auto g = [&](double x) { return -std::pow(x + b, 1 - k) * ((k - 1) * x + b); };
  return (g(quantile) - g(0)) / (g(u - b) - g(0));
}

}  // namespace

ScissorhandsTheorem scissorhands_theorem(const AssumedLaw& law, double share, double epsilon,
                                         int first, int last) {
  const double k = law.k;
  const double term = k - (k - 1) * std::pow((1 - epsilon) / (share - epsilon), 1 / (k - 1));
  const double factor = (1 - share) / ((1 - epsilon) * (1 - epsilon)) * term;
  const double spread = epsilon * law.b / ((k - 2) * (law.u - law.b));
  const double missing = (1 - share) / (1 - epsilon);
  return {loss_of(law, share), factor / 0.98, 2.1 * factor,
          1 - last * std::exp(-spread * spread * (first - 1)) -
              last * std::exp(-2 * missing * missing * (first - 1))};
}

}  // namespace kvsim
