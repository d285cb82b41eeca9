#include "analysis/bounds/scissorhands_lambda.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

namespace kvsim {
namespace {

double longest_row(const Matrix& rows) { return rows.cast<double>().rowwise().norm().maxCoeff(); }

/// The largest singular value.
double spectral_norm(const Matrix& matrix) {
  const Eigen::MatrixXd wide = matrix.cast<double>();
  const Eigen::MatrixXd gram = wide * wide.transpose();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram, Eigen::EigenvaluesOnly);
  return std::sqrt(std::max(0.0, solver.eigenvalues()[gram.rows() - 1]));
}

}  // namespace

std::optional<double> LambdaCondition::left_side() const {
  if (!value_output) return std::nullopt;
  return *value_output * (1 + query_key);
}

bool LambdaCondition::is_broken() const { return left_side() > 0.5; }

LambdaCondition lambda_condition(const Unit& unit, int head) {
  LambdaCondition condition;
  condition.query_key = unit.scale * longest_row(unit.query[head]) * longest_row(unit.key);
  if (unit.output_projection.empty() || unit.residual_square.empty()) return condition;
  const double stream =
      std::sqrt(*std::max_element(unit.residual_square.begin(), unit.residual_square.end()));
  if (stream == 0) return condition;
  const double projection = spectral_norm(unit.output_projection[head]);
  condition.value_output = longest_row(unit.value) * projection / stream;
  return condition;
}

}  // namespace kvsim
