#include "analysis/fits/approximate_newton.h"

#include <Eigen/Cholesky>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

void require(bool condition, const std::string& message) {
  if (!condition) throw std::invalid_argument("approximate Newton: " + message);
}

/// Leverage scores of D^(1/2) A, [n]: the squared norms of the rows of an orthonormal basis of its
/// range. Their sum is d.
Eigen::VectorXd leverage_scores(const Eigen::MatrixXd& a, const Eigen::VectorXd& diagonal) {
  const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(diagonal.cwiseSqrt().asDiagonal() * a);
  require(qr.rank() == a.cols(), "the columns of D^(1/2) A are dependent");
  const Eigen::MatrixXd basis = qr.householderQ() * Eigen::MatrixXd::Identity(a.rows(), a.cols());
  return basis.rowwise().squaredNorm();
}

/// The lower triangle of A^T D A, from the rows whose entry in D is not 0.
Eigen::MatrixXd gram(const Eigen::MatrixXd& a, const Eigen::VectorXd& diagonal) {
  Eigen::MatrixXd sum = Eigen::MatrixXd::Zero(a.cols(), a.cols());
  for (Eigen::Index row = 0; row < a.rows(); ++row) {
    if (diagonal[row] == 0) continue;
    poll_interrupt();
    sum.selfadjointView<Eigen::Lower>().rankUpdate(a.row(row).transpose(), diagonal[row]);
  }
  return sum;
}

}  // namespace

NewtonResult approximate_newton(const SoftmaxRegression& regression, const Eigen::VectorXd& x0,
                                const NewtonOptions& options) {
  require(options.iterations > 0, "iterations: expected a number above 0");
  require(options.epsilon > 0, "epsilon: expected a number above 0");
  require(options.delta > 0 && options.delta < 1, "delta: expected a number in (0, 1)");

  const Eigen::MatrixXd& a = regression.a();
  const double delta1 = options.delta / options.iterations;
  RandomStream random(options.seed, {});
  NewtonResult result;
  result.x = x0;
  while (result.iterations < options.iterations && !result.converged) {
    poll_interrupt();
    ++result.iterations;
    const Eigen::VectorXd diagonal =
        regression.curvature_diagonal(result.x) + regression.w().cwiseAbs2();
    const Eigen::VectorXd sample = subsample(a, diagonal, options.epsilon1, delta1, random);
    result.rows = std::max(result.rows, static_cast<int>((sample.array() != 0).count()));
    const Eigen::LLT<Eigen::MatrixXd> matrix(gram(a, sample));
    // The sample is singular, which delta allows for: draw another one.
    if (matrix.info() != Eigen::Success) continue;
    const Eigen::VectorXd step = matrix.solve(regression.gradient(result.x));
    result.x -= step;  // line 9 adds
    result.converged = step.norm() <= options.epsilon;
  }
  result.gradient_norm = regression.gradient(result.x).norm();
  return result;
}

Eigen::VectorXd subsample(const Eigen::MatrixXd& a, const Eigen::VectorXd& diagonal,
                          double epsilon1, double delta1, RandomStream& random) {
  require(diagonal.size() == a.rows(), "D needs one entry per row of A");
  require(epsilon1 > 0 && epsilon1 < 1, "epsilon1: expected a number in (0, 1)");
  require(delta1 > 0 && delta1 < 1, "delta: expected a number in (0, 1)");
  require(diagonal.allFinite(), "D is not finite; is exp(A x)?");
  Eigen::Index least = 0;
  require(diagonal.minCoeff(&least) > 0,
          "D is not positive in row " + std::to_string(least) + "; a larger w there makes it so");

  // From the matrix Chernoff bound (Tropp, User-Friendly Tail Bounds, Theorem 1.1): the norm of
  // each draw, relative to A^T D A, is at most d / draws.
  const auto dims = static_cast<double>(a.cols());
  const double draws = std::ceil(3 * dims * std::log(2 * dims / delta1) / (epsilon1 * epsilon1));
  const Eigen::VectorXd score = leverage_scores(a, diagonal);
  if (draws >= static_cast<double>(a.rows())) return diagonal;

  std::vector<double> cumulative(score.size());
  std::partial_sum(score.begin(), score.end(), cumulative.begin());
  Eigen::VectorXd sample = Eigen::VectorXd::Zero(a.rows());
  for (int draw = 0; draw < static_cast<int>(draws); ++draw) {
    const double target = random.uniform() * cumulative.back();
    const auto row =
        std::lower_bound(cumulative.begin(), cumulative.end(), target) - cumulative.begin();
    sample[row] += diagonal[row] * cumulative.back() / (draws * score[row]);
  }
  return sample;
}

}  // namespace kvsim
