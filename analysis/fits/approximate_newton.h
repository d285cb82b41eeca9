#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "analysis/fits/softmax_regression.h"
#include "traces/synth/random_stream.h"

namespace kvsim {

struct NewtonOptions {
  int iterations = 100;    ///< upper limit, above 0
  double epsilon = 1e-8;   ///< step length at which the iterations end, above 0
  double epsilon1 = 0.25;  ///< accuracy of subsample(), in (0, 1)
  double delta = 0.1;      ///< probability that any sample misses epsilon1, in (0, 1)
  std::uint64_t seed = 0;  ///< of the samples; platforms draw the same numbers
};

struct NewtonResult {
  Eigen::VectorXd x;  ///< [d]
  int iterations = 0;
  int rows = 0;              ///< the most rows of A that one iteration sampled
  double gradient_norm = 0;  ///< at x
  bool converged = false;    ///< the last step was at most epsilon long
};

/// H2O Algorithm 4 (Appendix D.22): minimises L from x0, [d], by Newton steps whose matrix is
/// A^T D A, with D = B_diag(x) + diag(w * w), on a sample of the rows of A.
///
/// It differs from the paper in two places. Line 9 adds the step, which increases L; here the step
/// is subtracted. T = log(|x0 - x*| / epsilon) needs the minimiser x*; here the iterations end
/// after a step of at most epsilon, which is |x - x*| up to the factor between the matrix and the
/// Hessian, and delta1 = delta / T takes the limit on the iterations for T.
///
/// If b >= 0, <b, 1> <= 1 and all w_i^2 >= 20, A^T D A is within 10 % of the Hessian for any u (the
/// 200 exp(R^2) of Theorem D.49 would be needed for W^2 in place of D). Near x* a step then reduces
/// the error, in the Hessian's norm, at least by the factor (0.09 + epsilon1) / (1 - epsilon1), so
/// epsilon1 has to be less than 0.45. Far from x* there is no guarantee: as in the paper, steps are
/// not damped, so a step may increase L, and `converged` does not check that.
///
/// Throws std::invalid_argument if x0 or an option is out of range, and if at some x D is not
/// finite, has an entry that is not positive, or makes the columns of D^(1/2) A dependent in double
/// precision: leverage scores are then undefined. If b >= 0 and <b, 1> <= 1, w_i^2 > 1/2 keeps D
/// positive.
NewtonResult approximate_newton(const SoftmaxRegression& regression, const Eigen::VectorXd& x0,
                                const NewtonOptions& options);

/// SUBSAMPLE of H2O Algorithm 4: the diagonal, [n], of a matrix D~ that is sparse for large n and
/// satisfies
///
///     (1 - epsilon1) A^T D A <= A^T D~ A <= (1 + epsilon1) A^T D A
///
/// in the Loewner order with probability 1 - delta1. A is [n, d]; `diagonal`, [n], is that of D.
/// Draws 3 d log(2 d / delta1) / epsilon1^2 rows with replacement, by their leverage scores in
/// D^(1/2) A; returns D itself if that is at least n. The scores are exact, which costs as much as
/// A^T D A: this shows how many rows are enough, not the paper's running time. Throws as
/// approximate_newton().
Eigen::VectorXd subsample(const Eigen::MatrixXd& a, const Eigen::VectorXd& diagonal,
                          double epsilon1, double delta1, RandomStream& random);

}  // namespace kvsim
