#include "analysis/fits/softmax_regression.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>

#include "traces/synth/random_stream.h"

namespace kvsim::softmax_regression_test {

using Eigen::MatrixXd;
using Eigen::VectorXd;

VectorXd normal_vector(RandomStream& random, int size) {
  VectorXd vector(size);
  for (double& entry : vector) entry = random.normal();
  return vector;
}

MatrixXd normal_matrix(RandomStream& random, int rows, int columns) {
  return normal_vector(random, rows * columns).reshaped(rows, columns);
}

/// At least 0, adding up to at most 1, as Theorem D.49 wants b; some have most of it in one place.
VectorXd target(RandomStream& random, int size) {
  const VectorXd mass = (3 * normal_vector(random, size)).array().exp();
  return random.uniform() * mass / mass.sum();
}

/// The derivative of a function from R^d to R^m as [m, d], to about 1e-8 of its size.
template <typename Function>
MatrixXd central_differences(const VectorXd& x, Function function) {
  constexpr double kStep = 1e-5;
  MatrixXd derivative(VectorXd(function(x)).size(), x.size());
  for (int i = 0; i < x.size(); ++i) {
    const VectorXd step = kStep * VectorXd::Unit(x.size(), i);
    derivative.col(i) = (VectorXd(function(x + step)) - VectorXd(function(x - step))) / (2 * kStep);
  }
  return derivative;
}

double distance(const MatrixXd& found, const MatrixXd& expected) {
  return (found - expected).norm() / expected.norm();
}

VectorXd eigenvalues(const MatrixXd& matrix) {
  return Eigen::SelfAdjointEigenSolver<MatrixXd>(matrix).eigenvalues();
}

/// B(z) alone: the Hessian where A = I and w = 0.
MatrixXd curvature(const VectorXd& z, const VectorXd& b) {
  const auto n = z.size();
  return SoftmaxRegression(MatrixXd::Identity(n, n), b, VectorXd::Zero(n)).hessian(z);
}

TEST_CASE("the losses are those of Definitions D.39 to D.41", "[analysis]") {
  // u = (2, 6), f = (1/4, 3/4)
  const SoftmaxRegression regression(MatrixXd::Identity(2, 2), VectorXd{{0.5, 0.25}},
                                     VectorXd{{1, 2}});
  const auto losses = regression.losses(VectorXd{{std::log(2), std::log(6)}});
  CHECK(losses.exp == Approx((1.0 / 16 + 1.0 / 4) / 2));
  CHECK(losses.sparse == Approx(8));
  CHECK(losses.reg == Approx(std::pow(std::log(2), 2) / 2 + 2 * std::pow(std::log(6), 2)));
  CHECK(losses.total() == losses.exp + losses.sparse + losses.reg);
}

TEST_CASE("gradient and Hessian are the derivatives of the loss", "[analysis]") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    RandomStream random(seed, {});
    const int n = 1 + static_cast<int>(random.below(20));
    const int d = 1 + static_cast<int>(random.below(6));  // more than n too
    const MatrixXd a = normal_matrix(random, n, d);
    // Any b: the derivatives hold without the theorem's assumptions.
    const SoftmaxRegression regression(a, 3 * normal_vector(random, n), normal_vector(random, n));
    const VectorXd x = 0.5 * normal_vector(random, d);
    CAPTURE(seed, n, d);

    const MatrixXd slope = central_differences(
        x, [&](const VectorXd& y) { return VectorXd{{regression.losses(y).total()}}; });
    CHECK(distance(regression.gradient(x), slope.transpose()) < 1e-7);
    const MatrixXd bend =
        central_differences(x, [&](const VectorXd& y) { return regression.gradient(y); });
    CHECK(distance(regression.hessian(x), bend) < 1e-7);
  }
}

TEST_CASE("L_exp is flat where A x grows alike, unlike what Lemma D.44 prints", "[analysis]") {
  RandomStream random(0, {});
  const VectorXd b = target(random, 5);
  const SoftmaxRegression regression(MatrixXd::Identity(5, 5), b, VectorXd::Zero(5));
  const VectorXd z = normal_vector(random, 5);
  const VectorXd shifted = z.array() + 0.5;
  CHECK(regression.losses(shifted).exp == Approx(regression.losses(z).exp));
  const VectorXd u = z.array().exp();
  const VectorXd slope = regression.gradient(z) - u;
  CHECK(std::abs(slope.sum()) < 1e-14);

  const VectorXd f = u / u.sum();
  const VectorXd printed = f * f.dot(f - b) + f.cwiseProduct(f - b);
  CHECK(std::abs(printed.sum()) > 0.1);
  CHECK((slope - (printed - 2 * f * f.dot(f - b))).norm() < 1e-14);
}

TEST_CASE("the curvature diagonal is that of B", "[analysis]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RandomStream random(seed, {});
    const MatrixXd a = normal_matrix(random, 12, 3);
    const VectorXd b = normal_vector(random, 12);
    const SoftmaxRegression regression(a, b, normal_vector(random, 12));
    const VectorXd x = normal_vector(random, 3);
    CHECK(distance(regression.curvature_diagonal(x), curvature(a * x, b).diagonal()) < 1e-13);
  }
}

TEST_CASE("the curvature of L_exp is bounded as the header says", "[analysis]") {
  double least = 0;
  double most = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    RandomStream random(seed, {});
    const int n = 1 + static_cast<int>(random.below(12));
    const VectorXd z = 2 * normal_vector(random, n);
    const MatrixXd of_exp =
        curvature(z, target(random, n)) - MatrixXd(z.array().exp().matrix().asDiagonal());
    const VectorXd spectrum = eigenvalues(of_exp);
    least = std::min(least, spectrum.minCoeff());
    most = std::max(most, spectrum.maxCoeff());
    CHECK(of_exp.diagonal().minCoeff() >= -0.5);
    CHECK(of_exp.diagonal().maxCoeff() <= 0.625);
  }
  CHECK(least >= -1);
  CHECK(least < -0.1);  // it is not convex
  CHECK(most <= 1.25);
}

TEST_CASE("D.47's condition keeps the Hessian's eigenvalues above l", "[analysis]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomStream random(seed, {});
    const int d = 1 + static_cast<int>(random.below(5));
    const int n = d + static_cast<int>(random.below(20));
    const MatrixXd a = 2 * random.uniform() * normal_matrix(random, n, d);
    const VectorXd b = target(random, n);
    const double l = 10 * random.uniform();
    const double weight = least_weight(l, smallest_singular_value(a));
    const SoftmaxRegression regression(a, b, VectorXd::Constant(n, std::sqrt(weight)));
    const VectorXd x = 2 * normal_vector(random, d);
    const VectorXd spectrum = eigenvalues(regression.hessian(x));
    CAPTURE(seed, n, d);
    CHECK(spectrum.minCoeff() >= l - 1e-14 * spectrum.maxCoeff());
  }
}

TEST_CASE("without D.47's condition the loss need not be convex", "[analysis]") {
  // f is nearly (1, 0) and b is (0, 1); u is small, so that the penalty does not make up for it.
  const MatrixXd a{{-10}, {-15}};
  const VectorXd b{{0, 1}};
  const VectorXd x{{1}};
  CHECK(SoftmaxRegression(a, b, VectorXd::Constant(2, 0.01)).hessian(x)(0, 0) < -0.1);
  CHECK(SoftmaxRegression(a, b, VectorXd::Constant(2, std::sqrt(20))).hessian(x)(0, 0) > 0);
}

TEST_CASE("D.47 is wrong for a b that is no distribution", "[analysis]") {
  const MatrixXd a{{-10}, {-15}};
  const VectorXd b{{0, 1e6}};
  const double weight = least_weight(1, smallest_singular_value(a));
  const SoftmaxRegression regression(a, b, VectorXd::Constant(2, std::sqrt(weight)));
  CHECK(regression.hessian(VectorXd{{1}})(0, 0) < 0);
}

TEST_CASE("the least weight grows as A's least singular value falls", "[analysis]") {
  const auto weight = [](const MatrixXd& a, double l) {
    return least_weight(l, smallest_singular_value(a));
  };
  CHECK(weight(MatrixXd{{3, 0}, {0, 0.5}, {0, 0}}, 1) == Approx(24));
  CHECK(weight(MatrixXd{{3, 0}, {0, 0.5}, {0, 0}}, 2) == Approx(28));
  CHECK(std::isinf(weight(MatrixXd{{1, 0}, {1, 0}}, 1)));
  CHECK(std::isinf(weight(MatrixXd{{1, 2}}, 1)));
}

TEST_CASE("the softmax stays exact where its sum overflows", "[analysis]") {
  const SoftmaxRegression regression(MatrixXd::Identity(2, 2), VectorXd::Zero(2),
                                     VectorXd::Zero(2));
  const auto losses = regression.losses(VectorXd{{1000, 1000}});
  CHECK(losses.exp == 0.25);
  CHECK(std::isinf(losses.total()));
}

TEST_CASE("shapes that do not fit are refused", "[analysis]") {
  const MatrixXd a = MatrixXd::Ones(3, 2);
  const VectorXd three = VectorXd::Ones(3);
  const VectorXd two = VectorXd::Ones(2);
  CHECK_THROWS_AS(SoftmaxRegression(a, two, three), std::invalid_argument);
  CHECK_THROWS_AS(SoftmaxRegression(a, three, two), std::invalid_argument);
  CHECK_THROWS_AS(SoftmaxRegression(MatrixXd(0, 2), VectorXd(0), VectorXd(0)),
                  std::invalid_argument);
  CHECK_THROWS_AS(SoftmaxRegression(a, three / 0.0, three), std::invalid_argument);
  const SoftmaxRegression regression(a, three, three);
  CHECK_THROWS_AS(regression.losses(three), std::invalid_argument);
  CHECK_THROWS_AS(regression.gradient(three), std::invalid_argument);
  CHECK_THROWS_AS(regression.hessian(three), std::invalid_argument);
  CHECK_THROWS_AS(regression.curvature_diagonal(three), std::invalid_argument);
}

}  // namespace kvsim::softmax_regression_test
