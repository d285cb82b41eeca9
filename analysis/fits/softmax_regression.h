#pragma once

#include <Eigen/Core>

namespace kvsim {

/// H2O Appendix D.17 to D.20: fits the softmax of A x to b, with a penalty on its mass before
/// normalisation that favours sparsity. With u = exp(A x) and f = u / <u, 1>,
///
///     L(x) = 0.5 |f - b|^2 + <u, 1> + 0.5 |diag(w) A x|^2.
///
/// Its Hessian is A^T (B(x) + W^2) A with W = diag(w) and an [n, n] matrix B(x) that the paper does
/// not state; softmax_regression.cpp derives it.
class SoftmaxRegression {
 public:
  /// The terms of L (Definitions D.39, D.41 and D.40).
  struct Losses {
    double exp = 0;
    double sparse = 0;
    double reg = 0;

    double total() const { return exp + sparse + reg; }  ///< Definition D.43
  };

  /// A is [n, d]; b and w are [n]. Throws std::invalid_argument if the sizes differ, A is empty, or
  /// a number is not finite.
  SoftmaxRegression(Eigen::MatrixXd a, Eigen::VectorXd b, Eigen::VectorXd w);

  const Eigen::MatrixXd& a() const { return a_; }
  const Eigen::VectorXd& w() const { return w_; }

  // For all of these, x is [d], and the result is not finite if exp(A x) overflows. They throw
  // std::invalid_argument if x has another size.

  Losses losses(const Eigen::VectorXd& x) const;

  /// [d], Lemma D.44 with the sign of Part 5 corrected.
  Eigen::VectorXd gradient(const Eigen::VectorXd& x) const;

  /// [d, d], in O(n d^2): B(x) is a diagonal and a matrix of rank 2.
  Eigen::MatrixXd hessian(const Eigen::VectorXd& x) const;

  /// [n], the diagonal of B(x): B_diag of Algorithm 4.
  Eigen::VectorXd curvature_diagonal(const Eigen::VectorXd& x) const;

 private:
  struct Point;
  Point at(const Eigen::VectorXd& x) const;

  Eigen::MatrixXd a_;
  Eigen::VectorXd b_;
  Eigen::VectorXd w_;
};

/// sigma_min(A): 0 if A has fewer rows than columns.
double smallest_singular_value(const Eigen::MatrixXd& a);

/// 20 + l / sigma_min(A)^2: if every w_i^2 is at least that, every eigenvalue of the Hessian is at
/// least l > 0, at any x (Lemma D.47 Part 1). Infinite, but for rounding, if the columns of A are
/// dependent.
///
/// The lemma also needs b >= 0 and <b, 1> <= 1, which only Theorem D.49 states. Then, in the
/// Loewner order, -1 <= B(x) - diag(u) <= 5/4, so that 1 would do in place of 20, and -1/2 <= B_ii
/// - u_i <= 5/8.
double least_weight(double l, double smallest_singular_value);

}  // namespace kvsim
