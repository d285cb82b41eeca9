#include "analysis/fits/softmax_regression.h"

#include <Eigen/SVD>
#include <stdexcept>
#include <utility>

// With z = A x, s = <f, f - b> and v = 2 f - b, Hadamard products written as *:
//
//     df/dz     = diag(f) - f f^T                                 (Lemma D.44 Part 4)
//     dLexp/dz  = f * (f - b) - s f
//     B_exp(z)  = diag(f * (v - s)) - (f * v) f^T - f (f * v)^T + (s + <f, v>) f f^T
//     B(z)      = B_exp(z) + diag(u)                              (Lemma D.46 Part 3)
//
// The second line corrects the paper: Lemma D.44 Part 5 adds f (f - b)^T f, but Part 4 implies a
// minus. The third line is its derivative. The bounds in the header follow from another form of it:
// with J = df/dz, and E, Var and Cov over i drawn with probability f_i,
//
//     y^T B_exp y = |J y|^2 + Cov(c, (y - E y)^2),  c = f - b.
//
// If b >= 0 and <b, 1> <= 1 then c lies in [-1, 1], s = E c too, and hence |Cov| <= 2 Var(y). For
// |y| = 1 the entries of y span at most sqrt(2), so that Var(y) <= 1/2; and J's norm is at most
// 1/2. For y = e_i, Var(y) = f_i (1 - f_i) <= 1/4 and |J e_i|^2 <= 2 f_i^2 (1 - f_i)^2 <= 1/8.

namespace kvsim {

/// The parts of the derivatives at x.
struct SoftmaxRegression::Point {
  Eigen::ArrayXd z;  ///< A x
  Eigen::ArrayXd u;
  Eigen::ArrayXd f;
  Eigen::ArrayXd c;  ///< f - b, Definition D.38
  double s = 0;      ///< <f, c>

  Eigen::ArrayXd fv() const { return f * (f + c); }
  /// The diagonal part of B_exp; the rest of it has rank 2.
  Eigen::ArrayXd own_curvature() const { return f * (f + c - s); }
  /// The factor of f f^T in B_exp.
  double common_curvature() const { return s + fv().sum(); }
};

SoftmaxRegression::SoftmaxRegression(Eigen::MatrixXd a, Eigen::VectorXd b, Eigen::VectorXd w)
    : a_(std::move(a)), b_(std::move(b)), w_(std::move(w)) {
  if (a_.size() == 0) throw std::invalid_argument("softmax regression: A is empty");
  if (b_.size() != a_.rows() || w_.size() != a_.rows()) {
    throw std::invalid_argument("softmax regression: b and w need one entry per row of A");
  }
  if (!a_.allFinite() || !b_.allFinite() || !w_.allFinite()) {
    throw std::invalid_argument("softmax regression: A, b and w have to be finite");
  }
}

SoftmaxRegression::Point SoftmaxRegression::at(const Eigen::VectorXd& x) const {
  if (x.size() != a_.cols()) {
    throw std::invalid_argument("softmax regression: x needs one entry per column of A");
  }
  Point point;
  point.z = (a_ * x).array();
  point.u = point.z.exp();
  point.f = (point.z - point.z.maxCoeff()).exp();  // stays finite where u does not
  point.f /= point.f.sum();
  point.c = point.f - b_.array();
  point.s = (point.f * point.c).sum();
  return point;
}

SoftmaxRegression::Losses SoftmaxRegression::losses(const Eigen::VectorXd& x) const {
  const Point point = at(x);
  return {.exp = 0.5 * point.c.square().sum(),
          .sparse = point.u.sum(),
          .reg = 0.5 * (w_.array() * point.z).square().sum()};
}

Eigen::VectorXd SoftmaxRegression::gradient(const Eigen::VectorXd& x) const {
  const Point point = at(x);
  const Eigen::ArrayXd slope =
      point.f * (point.c - point.s) + point.u + w_.array().square() * point.z;
  return a_.transpose() * slope.matrix();
}

Eigen::MatrixXd SoftmaxRegression::hessian(const Eigen::VectorXd& x) const {
  const Point point = at(x);
  const Eigen::VectorXd diagonal = (point.own_curvature() + point.u + w_.array().square()).matrix();
  const Eigen::VectorXd f = a_.transpose() * point.f.matrix();
  const Eigen::VectorXd fv = a_.transpose() * point.fv().matrix();
  return a_.transpose() * diagonal.asDiagonal() * a_ - fv * f.transpose() - f * fv.transpose() +
         point.common_curvature() * f * f.transpose();
}

Eigen::VectorXd SoftmaxRegression::curvature_diagonal(const Eigen::VectorXd& x) const {
  const Point point = at(x);
  return point.own_curvature() - 2 * point.fv() * point.f +
         point.common_curvature() * point.f.square() + point.u;
}

double smallest_singular_value(const Eigen::MatrixXd& a) {
  if (a.rows() < a.cols()) return 0;
  return Eigen::JacobiSVD<Eigen::MatrixXd>(a).singularValues().minCoeff();
}

double least_weight(double l, double smallest_singular_value) {
  return 20 + l / (smallest_singular_value * smallest_singular_value);
}

}  // namespace kvsim
