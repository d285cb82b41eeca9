#include "analysis/fits/approximate_newton.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>

namespace kvsim::approximate_newton_test {

using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd normal_matrix(RandomStream& random, int rows, int columns) {
  MatrixXd matrix(rows, columns);
  for (double& entry : matrix.reshaped()) entry = random.normal();
  return matrix;
}

/// A problem as Theorem D.49 has them, but for its 200 exp(R^2): each w_i^2 is in
/// `weight` .. 2 `weight`. The first column of A is constant, which keeps the minimiser away from
/// 0, and its first row is ten times as long as the others.
SoftmaxRegression problem(std::uint64_t seed, int n, int d, double weight = 20) {
  RandomStream random(seed, {});
  MatrixXd a = normal_matrix(random, n, d);
  a.col(0).setOnes();
  a.row(0) *= 10;
  VectorXd b(n);
  for (double& entry : b) entry = random.exponential(1);
  VectorXd w(n);
  for (double& entry : w) entry = std::sqrt(weight * (1 + random.uniform()));
  return {a, b / b.sum(), w};
}

VectorXd curvature(const SoftmaxRegression& regression, const VectorXd& x) {
  return regression.curvature_diagonal(x) + regression.w().cwiseAbs2();
}

/// What A^T diag(d) A is relative to `reference`: eigenvalues, 1 if they are equal.
VectorXd relative(const MatrixXd& a, const VectorXd& d, const MatrixXd& reference) {
  const MatrixXd gram = a.transpose() * d.asDiagonal() * a;
  return Eigen::GeneralizedSelfAdjointEigenSolver<MatrixXd>(gram, reference).eigenvalues();
}

/// The minimiser by Newton's method with the exact Hessian, from x.
VectorXd exact_newton(const SoftmaxRegression& regression, VectorXd x) {
  for (int step = 0; step < 20; ++step) {
    x -= regression.hessian(x).llt().solve(regression.gradient(x));
  }
  return x;
}

TEST_CASE("Algorithm 4 finds the minimiser that Newton's method finds", "[analysis]") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const int n = 3000;
    const SoftmaxRegression regression = problem(seed, n, 3);
    const VectorXd start = VectorXd::Constant(3, 0.1);
    const VectorXd expected = exact_newton(regression, start);
    CHECK(expected.norm() > 0.02);
    CHECK(regression.gradient(expected).norm() < 1e-10 * n);

    const NewtonResult found = approximate_newton(regression, start, {.seed = seed});
    CAPTURE(seed, found.iterations, found.rows);
    CHECK(found.converged);
    CHECK((found.x - expected).norm() < 1e-8);
    CHECK(found.gradient_norm == regression.gradient(found.x).norm());
    CHECK(found.rows > 3);
    CHECK(found.rows < n / 2);
  }
}

TEST_CASE("a step on a sample shrinks the error by a constant factor", "[analysis]") {
  const double bound = (0.09 + 0.25) / (1 - 0.25);
  const SoftmaxRegression regression = problem(1, 3000, 3);
  const VectorXd minimiser = exact_newton(regression, VectorXd::Zero(3));
  const MatrixXd hessian = regression.hessian(minimiser);
  VectorXd x = minimiser + VectorXd::Constant(3, 1e-3);
  const auto error = [&] { return std::sqrt((x - minimiser).dot(hessian * (x - minimiser))); };
  int steps = 0;
  const double first = error();
  while (error() > 1e-9 * first) {
    const double before = error();
    const auto seed = static_cast<std::uint64_t>(++steps);
    x = approximate_newton(regression, x, {.iterations = 1, .delta = 0.001, .seed = seed}).x;
    CAPTURE(steps);
    REQUIRE(error() < bound * before);
    REQUIRE(error() > 1e-4 * before);  // Newton's method itself would square it
  }
  CHECK(steps > 3);
}

TEST_CASE("A^T D A is within a tenth of the Hessian where u is large", "[analysis]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const SoftmaxRegression regression = problem(seed, 8, 3);
    RandomStream random(seed, {1});
    const double size = random.uniform();
    VectorXd x = size * normal_matrix(random, 3, 1);
    // exp(18) is two million times w^2. Beside exp(40), w^2 would be lost in rounding.
    const double largest = (regression.a() * x).maxCoeff();
    if (largest > 18) x *= 18 / largest;
    const VectorXd ratio =
        relative(regression.a(), curvature(regression, x), regression.hessian(x));
    CAPTURE(seed);
    CHECK(ratio.minCoeff() > 1 / 1.09);
    CHECK(ratio.maxCoeff() < 1 / 0.91);
  }
}

TEST_CASE("a sample of rows is a spectral approximation", "[analysis]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const SoftmaxRegression regression = problem(seed, 4000, 4);
    const VectorXd d = curvature(regression, VectorXd::Zero(4));
    const MatrixXd& a = regression.a();
    RandomStream random(seed, {});
    const VectorXd sample = subsample(a, d, 0.25, 0.01, random);
    const int draws = 1284;  // 3 * 4 * log(2 * 4 / 0.01) * 16
    CHECK((sample.array() != 0).count() <= draws);
    CHECK((sample.array() != 0).count() > draws / 2);
    CHECK(sample.minCoeff() == 0);
    CHECK(sample[0] > 0);  // the long row
    const VectorXd ratio = relative(a, sample, a.transpose() * d.asDiagonal() * a);
    CHECK(ratio.minCoeff() > 0.75);
    CHECK(ratio.maxCoeff() < 1.25);
  }
}

TEST_CASE("samples are right on average", "[analysis]") {
  const SoftmaxRegression regression = problem(0, 200, 2);
  const VectorXd d = curvature(regression, VectorXd::Zero(2));
  VectorXd sum = VectorXd::Zero(200);
  RandomStream random(0, {});
  constexpr int kSamples = 2000;
  for (int i = 0; i < kSamples; ++i) sum += subsample(regression.a(), d, 0.9, 0.5, random);
  CHECK((sum / kSamples - d).norm() < 0.1 * d.norm());
}

TEST_CASE("few rows are all used", "[analysis]") {
  const SoftmaxRegression regression = problem(0, 50, 3);
  const VectorXd d = curvature(regression, VectorXd::Zero(3));
  RandomStream random(0, {});
  CHECK(subsample(regression.a(), d, 0.25, 0.1, random) == d);
  CHECK(approximate_newton(regression, VectorXd::Zero(3), {}).rows == 50);
}

TEST_CASE("equal seeds give equal minimisers to the last bit", "[analysis]") {
  const SoftmaxRegression regression = problem(0, 3000, 3);
  const auto minimise = [&](std::uint64_t seed) {
    return approximate_newton(regression, VectorXd::Zero(3), {.iterations = 3, .seed = seed}).x;
  };
  CHECK(minimise(1) == minimise(1));
  CHECK(minimise(1) != minimise(2));
}

TEST_CASE("iterations are capped", "[analysis]") {
  const NewtonResult result =
      approximate_newton(problem(0, 50, 3), VectorXd::Ones(3), {.iterations = 2});
  CHECK(result.iterations == 2);
  CHECK_FALSE(result.converged);
  CHECK(result.gradient_norm > 0);
}

TEST_CASE("D has to be positive and finite, and A of full rank", "[analysis]") {
  // f is nearly (1, 0) and b is (0, 1), as in the example of a loss that is not convex.
  const MatrixXd a{{-10}, {-15}};
  const VectorXd b{{0, 1}};
  const SoftmaxRegression light(a, b, VectorXd::Zero(2));
  CHECK_THROWS_WITH(approximate_newton(light, VectorXd{{0.4}}, {}),
                    Catch::Contains("D is not positive in row"));
  const SoftmaxRegression heavy(a, b, VectorXd::Constant(2, std::sqrt(0.51)));
  CHECK(approximate_newton(heavy, VectorXd{{0.4}}, {}).converged);
  CHECK_THROWS_WITH(approximate_newton(heavy, VectorXd{{-100}}, {}), Catch::Contains("not finite"));
  const SoftmaxRegression flat(MatrixXd::Ones(3, 2), VectorXd::Zero(3), VectorXd::Ones(3));
  CHECK_THROWS_WITH(approximate_newton(flat, VectorXd::Zero(2), {}), Catch::Contains("dependent"));
}

TEST_CASE("options out of range are refused", "[analysis]") {
  const SoftmaxRegression regression = problem(0, 10, 2);
  const VectorXd x = VectorXd::Zero(2);
  const auto refuses = [&](const VectorXd& start, const NewtonOptions& options) {
    CHECK_THROWS_AS(approximate_newton(regression, start, options), std::invalid_argument);
  };
  refuses(VectorXd::Zero(3), {});
  refuses(x, {.iterations = 0});
  refuses(x, {.epsilon = 0});
  refuses(x, {.epsilon1 = 0});
  refuses(x, {.epsilon1 = 1});
  refuses(x, {.delta = 0});
  refuses(x, {.delta = 1});
  RandomStream random(0, {});
  CHECK_THROWS_AS(subsample(regression.a(), VectorXd::Ones(9), 0.5, 0.5, random),
                  std::invalid_argument);
}

}  // namespace kvsim::approximate_newton_test
