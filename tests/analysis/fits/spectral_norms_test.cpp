#include "analysis/fits/spectral_norms.h"

#include <Eigen/QR>
#include <Eigen/SVD>
#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>
#include <random>

namespace kvsim::spectral_norms_test {

/// From row `first` on.
void check_norms(const Matrix& rows, Eigen::Index first = 0) {
  const std::vector<double> norms = spectral_norms(rows);
  REQUIRE(std::ssize(norms) == rows.rows());
  for (Eigen::Index t = first; t < rows.rows(); ++t) {
    const Eigen::MatrixXd values = rows.topRows(t + 1).cast<double>();
    const double expected = Eigen::JacobiSVD<Eigen::MatrixXd>(values).singularValues()[0];
    CAPTURE(t);
    CHECK(norms[static_cast<std::size_t>(t)] == Approx(expected).epsilon(1e-11).margin(1e-30));
  }
}

Matrix random_rows(Eigen::Index count, Eigen::Index dim, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  return Matrix::NullaryExpr(count, dim, [&] { return normal(bits); });
}

TEST_CASE("spectral norms of leading rows are the largest singular values", "[fits]") {
  check_norms(random_rows(40, 1, 1));
  check_norms(random_rows(60, 7, 2));
  check_norms(random_rows(90, 40, 3));
}

TEST_CASE("spectral norms are found where the largest ones are near each other", "[fits]") {
  // Singular values that crowd at the largest one take Lanczos' method as many vectors as it may.
  constexpr Eigen::Index kDim = 128;
  const Eigen::MatrixXd from =
      random_rows(kDim, kDim, 5).cast<double>().householderQr().householderQ();
  const Eigen::MatrixXd to =
      random_rows(kDim, kDim, 6).cast<double>().householderQr().householderQ();
  const Eigen::VectorXd values = Eigen::VectorXd::NullaryExpr(kDim, [](Eigen::Index i) {
    return std::sqrt(2 + std::cos(std::numbers::pi * (static_cast<double>(i) + 0.5) / kDim));
  });
  check_norms((from * values.asDiagonal() * to).cast<float>(), kDim - 4);
  // The largest one is there twice.
  Matrix equal = Matrix::Zero(4, 6);
  equal(0, 1) = equal(1, 4) = equal(3, 4) = 3;
  CHECK(spectral_norms(equal.topRows(2)) == std::vector<double>{3, 3});
  check_norms(equal);
}

TEST_CASE("spectral norms follow a direction that takes over, and rows of zeros", "[fits]") {
  Matrix rows = Matrix::Zero(60, 20);
  // Rows along one axis, then longer ones along others: what was found before says nothing of them.
  for (Eigen::Index t = 2; t < 60; ++t) rows(t, t / 8) = static_cast<float>(1 + t / 8);
  check_norms(rows);
  rows = 1e-20F * random_rows(30, 12, 4);
  rows.row(29) *= 1e30F;
  check_norms(rows);
}

}  // namespace kvsim::spectral_norms_test
