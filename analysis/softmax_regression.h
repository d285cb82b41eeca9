#pragma once

#include <Eigen/Core>

namespace kvsim {

/// H2O Appendix D.17 to D.20: regression of a softmax on b, with a penalty on the mass before
/// normalisation that keeps it sparse. With u = exp(A x) and f = u / <u, 1>,
///
///     L(x) = 0.5 |f - b|^2 + <u, 1> + 0.5 |diag(w) A x|^2.
///
/// Its Hessian is A^T (B(x) + W^2) A with W = diag(w) and an [n, n] matrix B(x) that the paper does
/// not write out; softmax_regression.cpp derives it.
class SoftmaxRegression {
 public:
  /// The terms of L (Definitions D.39, D.41 and D.40).
  struct Losses {
    double exp = 0;
    double sparse = 0;
    double reg = 0;

    double total() const { return exp + sparse + reg; }  ///< Definition D.43
  };

  /// A is [n, d]; b and w are [n]. Throws std::invalid_argument if they do not fit each other, are
  /// empty or hold a number that is not finite.
  SoftmaxRegression(Eigen::MatrixXd a, Eigen::VectorXd b, Eigen::VectorXd w);

  const Eigen::MatrixXd& a() const { return a_; }
  const Eigen::VectorXd& w() const { return w_; }

  // In each of these x is [d]. Where exp(A x) overflows they are not finite.

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

/// 20 + l / sigma_min(A)^2: if no w_i^2 is less, no eigenvalue of the Hessian is below l > 0, at
/// any x (Lemma D.47 Part 1). Infinite, but for rounding, if the columns of A are dependent.
///
/// The lemma does not say that b >= 0 and <b, 1> <= 1, which Theorem D.49 assumes, and is wrong
/// without. With it -1 <= B(x) - diag(u) <= 5/4 in the order of matrices, so that 1 would do for
/// the 20, and -1/2 <= B_ii - u_i <= 5/8.
double least_weight(double l, double smallest_singular_value);

}  // namespace kvsim
