#include "policies/parts/ridge.h"

#include <cmath>
#include <cstddef>
#include <numeric>

namespace kvsim {
namespace {

double dot(const std::vector<double>& x, const std::vector<double>& y, std::size_t size) {
  double sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += x[i] * y[i];
  return sum;
}

// The lower triangle of the Cholesky factor of x x' + penalty I.
Rows cholesky(const Rows& x, double penalty) {
  Rows factor(x.size(), std::vector<double>(x.size(), 0));
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const double rest = dot(x[i], x[j], x[i].size()) - dot(factor[i], factor[j], j);
      factor[i][j] = i == j ? std::sqrt(rest + penalty) : rest / factor[j][j];
    }
  }
  return factor;
}

// row -= weight * other
void subtract(std::vector<double>& row, double weight, const std::vector<double>& other) {
  for (std::size_t d = 0; d < row.size(); ++d) row[d] -= weight * other[d];
}

}  // namespace

double mean_square(const Rows& rows) {
  double sum = 0;
  for (const auto& row : rows) sum += dot(row, row, row.size());
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

void solve_dual(const Rows& x, double penalty, Rows& y) {
  const Rows factor = cholesky(x, penalty);
  for (std::size_t i = 0; i < y.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) subtract(y[i], factor[i][j], y[j]);
    for (double& number : y[i]) number /= factor[i][i];
  }
  for (std::size_t i = y.size(); i-- > 0;) {
    for (std::size_t j = i + 1; j < y.size(); ++j) subtract(y[i], factor[j][i], y[j]);
    for (double& number : y[i]) number /= factor[i][i];
  }
}

std::vector<double> factors_to_one(const Rows& x, double penalty) {
  Rows missing;  // 1 - x 1
  for (const auto& row : x) missing.push_back({1 - std::accumulate(row.begin(), row.end(), 0.0)});
  solve_dual(x, penalty, missing);
  std::vector<double> factor(x.empty() ? 0 : x.front().size(), 1);
  for (std::size_t r = 0; r < x.size(); ++r) subtract(factor, -missing[r][0], x[r]);
  return factor;
}

}  // namespace kvsim
