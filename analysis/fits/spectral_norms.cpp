#include "analysis/fits/spectral_norms.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

using Square = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

constexpr double kTolerance = 1e-11;       // of the largest eigenvalue, relative to it
constexpr Eigen::Index kMostVectors = 96;  // of Lanczos' method; then all eigenvalues take less

double by_all_eigenvalues(const Square& gram, Vector& vector) {
  const Eigen::SelfAdjointEigenSolver<Square> solver(gram);
  vector = solver.eigenvectors().rightCols<1>();
  return std::max(0.0, solver.eigenvalues()[gram.rows() - 1]);
}

/// Whether it is proved that no eigenvalue of `gram`, [n, n], is larger than this times
/// 1 + n (n + 1) u, for u = 2^-53: where the difference has a Cholesky factor in floating point
/// (Higham, Accuracy and Stability of Numerical Algorithms, theorem 10.3). NaN proves nothing.
bool is_bound(const Square& gram, double limit) {
  if (!std::isfinite(limit)) return false;
  Square difference = -gram;
  difference.diagonal().array() += limit;
  return Eigen::LLT<Eigen::Ref<Square>>(difference).info() == Eigen::Success;
}

/// v' G v / v' v, which is at most the largest eigenvalue, where the Ritz value may be above it.
double rayleigh_quotient(const Square& gram, const Vector& vector) {
  return vector.dot(gram.selfadjointView<Eigen::Lower>() * vector) / vector.squaredNorm();
}

/// Lanczos' method from a vector near the one that is sought, with all vectors kept orthogonal
/// (Golub and Van Loan, Matrix Computations, section 10.3). `vector` becomes the Ritz vector of the
/// largest Ritz value; returns its Rayleigh quotient, or NaN if no Ritz values were found.
/// `count` is how many vectors it took the last time, and becomes how many it takes.
double by_lanczos(const Square& gram, Vector& vector, Eigen::Index& count) {
  constexpr Eigen::Index kBetweenChecks = 4;
  const Eigen::Index first_check = count - kBetweenChecks;
  const Eigen::Index most = std::min(kMostVectors, gram.rows());
  Square basis(gram.rows(), most);
  Vector diagonal(most);
  Vector off_diagonal(most);
  basis.col(0) = vector.normalized();
  for (Eigen::Index k = 0;; ++k) {
    Vector next = gram.selfadjointView<Eigen::Lower>() * basis.col(k);
    diagonal[k] = basis.col(k).dot(next);
    const auto found = basis.leftCols(k + 1);
    for (int twice = 0; twice < 2; ++twice) next -= found * (found.transpose() * next);
    off_diagonal[k] = next.norm();
    count = k + 1;
    const bool is_complete = count == most || !(off_diagonal[k] > 1e-14 * std::abs(diagonal[0]));
    if (is_complete || (count >= first_check && count % kBetweenChecks == 0)) {
      Eigen::SelfAdjointEigenSolver<Square> ritz;
      ritz.computeFromTridiagonal(diagonal.head(count), off_diagonal.head(count - 1));
      if (ritz.info() != Eigen::Success) return std::numeric_limits<double>::quiet_NaN();
      const double largest = ritz.eigenvalues()[count - 1];
      const double gap = count == 1 ? largest : largest - ritz.eigenvalues()[count - 2];
      const double residual = off_diagonal[k] * ritz.eigenvectors()(count - 1, count - 1);
      if (is_complete || residual * residual < kTolerance / 10 * largest * gap) {
        vector = found * ritz.eigenvectors().col(count - 1);
        return rayleigh_quotient(gram, vector);
      }
    }
    basis.col(count) = next / off_diagonal[k];
  }
}

}  // namespace

std::vector<double> spectral_norms(const Matrix& rows) {
  const Eigen::Index dim = rows.cols();
  Square gram = Square::Zero(dim, dim);
  Vector vector = Vector::Zero(dim);  // of the largest eigenvalue, about
  std::vector<double> norms;
  double square = 0;
  Eigen::Index lanczos_vectors = 0;
  // In many dimensions no proof is as narrow as the tolerance.
  const double width = kTolerance - static_cast<double>(dim * (dim + 1)) * 0x1p-53;
  for (Eigen::Index t = 0; t < rows.rows(); ++t) {
    poll_interrupt();
    const Vector row = rows.row(t).cast<double>().transpose();
    gram += row * row.transpose();
    if (vector.squaredNorm() == 0) vector = row;
    if (vector.squaredNorm() > 0) {
      if (width > 0) square = by_lanczos(gram, vector, lanczos_vectors);
      if (width <= 0 || !is_bound(gram, square * (1 + width))) {
        square = by_all_eigenvalues(gram, vector);
      }
    }
    norms.push_back(std::sqrt(square));
  }
  return norms;
}

}  // namespace kvsim
