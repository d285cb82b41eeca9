#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "analysis/softmax_regression.h"
#include "traces/random_stream.h"

namespace kvsim {

struct NewtonOptions {
  int iterations = 100;    ///< at most; above 0
  double epsilon = 1e-8;   ///< the accuracy of x that is asked for, above 0
  double epsilon1 = 0.25;  ///< of SUBSAMPLE, in (0, 1)
  double delta = 0.1;      ///< probability that some sample is worse than that, in (0, 1)
  std::uint64_t seed = 0;  ///< of the samples; its random numbers are alike on every platform
};

struct NewtonResult {
  Eigen::VectorXd x;  ///< [d]
  int iterations = 0;
  int rows = 0;              ///< the most rows of A that one iteration's matrix was made of
  double gradient_norm = 0;  ///< at x
  bool converged = false;    ///< the last step was no longer than epsilon
};

/// H2O Algorithm 4 (Appendix D.22): minimises L from x0, [d], by Newton steps whose matrix is
/// A^T D A, with D = B_diag(x) + diag(w * w), on a sample of the rows of A.
///
/// It departs from the paper in two places. Line 9 adds the step, which climbs; here it is
/// subtracted. T = log(|x0 - x*| / epsilon) takes the minimiser to be known; here the iterations
/// end after a step of at most epsilon, which is |x - x*| up to the factor by which the matrix
/// misses the Hessian, and a cap on them stands for T in delta1 = delta / T.
///
/// If b >= 0, <b, 1> <= 1 and all w_i^2 >= 20, A^T D A is within 10 % of the Hessian however large
/// u is (Theorem D.49's 200 exp(R^2) is what W^2 in place of D would take). Near x* a step then
/// shrinks the error in the Hessian's norm to (0.09 + epsilon1) / (1 - epsilon1) of it at worst, so
/// that epsilon1 = Theta(1) has to be less than 0.45. Far from x* nothing is proved. Steps are
/// whole there too, as in the paper: one may raise the loss, which `converged` does not look at.
///
/// Throws std::invalid_argument if x0 or an option is out of range, and if D at some x is not
/// finite, makes the columns of D^(1/2) A dependent in double precision or has an entry that is not
/// positive, for sampling is not defined then and a D cut off at 0 would be another method. If
/// b >= 0 and <b, 1> <= 1, w_i^2 > 1/2 keeps D positive.
NewtonResult approximate_newton(const SoftmaxRegression& regression, const Eigen::VectorXd& x0,
                                const NewtonOptions& options);

/// SUBSAMPLE: the diagonal of a matrix D~, [n], most of it 0 if n is large, such that
///
///     (1 - epsilon1) A^T D A <= A^T D~ A <= (1 + epsilon1) A^T D A
///
/// in the order of matrices with probability 1 - delta1. A is [n, d], D the diagonal `diagonal`,
/// [n]. Draws 3 d log(2 d / delta1) / epsilon1^2 rows by their leverage scores in D^(1/2) A, with
/// replacement; returns D itself if that is no fewer than n. The scores are exact, which costs as
/// much as A^T D A does: this shows how many rows are enough and not the paper's running time.
/// Throws as approximate_newton() does.
Eigen::VectorXd subsample(const Eigen::MatrixXd& a, const Eigen::VectorXd& diagonal,
                          double epsilon1, double delta1, RandomStream& random);

}  // namespace kvsim
