#include "analysis/bounds/scissorhands_lambda.h"

#include <Eigen/SVD>
#include <catch2/catch.hpp>

#include "tests/analysis/analysed.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::scissorhands_lambda_test {

/// Two tokens; queries, keys and values of lengths 5, 2 and 3, W_O = diag(4, 1), a stream of 6.
Unit small_unit() {
  Unit unit = test_support::random_unit({.tokens = 2, .head_dim = 2, .value_dim = 2}, 1);
  unit.scale = 0.5F;
  unit.query[0] << 3, 4, 1, 0;
  unit.key << 0, 2, 1, 1;
  unit.value << 1, 0, 0, -3;
  unit.output_projection = {Matrix(2, 2)};
  unit.output_projection[0] << 4, 0, 0, 1;
  unit.residual_square = {36, 9};
  return unit;
}

TEST_CASE("lambda of Theorem 4.1: lengths bound singular values from below", "[analysis]") {
  const LambdaCondition lambda = lambda_condition(small_unit(), 0);
  CHECK(lambda.query_key == Approx(0.5 * 5 * 2));
  CHECK(lambda.value_output.value() == Approx(3 * 4 / 6.0));
  CHECK(lambda.left_side().value() == Approx(2 * (1 + 5)));
  CHECK(lambda.is_broken());
}

TEST_CASE("lambda of Theorem 4.1: what is not above 1/2, or not known, is not broken",
          "[analysis]") {
  Unit unit = small_unit();
  unit.value /= 24;
  CHECK(lambda_condition(unit, 0).left_side().value() == Approx(0.5));
  unit.value /= 2;
  CHECK_FALSE(lambda_condition(unit, 0).is_broken());
  unit = small_unit();
  unit.residual_square.clear();
  CHECK_FALSE(lambda_condition(unit, 0).left_side().has_value());
  CHECK_FALSE(lambda_condition(unit, 0).is_broken());
  unit = small_unit();
  unit.residual_square = {0, 0};
  CHECK_FALSE(lambda_condition(unit, 0).left_side().has_value());
}

TEST_CASE("lambda of Theorem 4.1: lambda_O is the largest singular value, head by head",
          "[analysis]") {
  const Unit unit =
      test_support::random_unit({.tokens = 9, .value_dim = 3, .group = 2, .hidden = 7}, 4);
  for (const int head : {0, 1}) {
    const Eigen::MatrixXd projection = unit.output_projection[head].cast<double>();
    const double largest = Eigen::JacobiSVD<Eigen::MatrixXd>(projection).singularValues()[0];
    double value = 0;
    for (int j = 0; j < 9; ++j) value = std::max<double>(value, unit.value.row(j).norm());
    CHECK(lambda_condition(unit, head).value_output.value() == Approx(value * largest / 3));
  }
}

TEST_CASE("scissorhands-bound tells where lambda breaks the theorem's condition", "[analysis]") {
  Unit unit = test_support::random_unit({.tokens = 30, .hidden = 5}, 6);
  const PolicyRun run = run_of("h2o", 20, unit);
  const LambdaCondition lambda = lambda_condition(unit, 0);
  const Row row = analyse("scissorhands-bound", unit, {run}).at(0);
  CHECK(row.real("lambda_query_key") == lambda.query_key);
  CHECK(row.real("lambda_value_output") == lambda.value_output.value());
  CHECK(row.real("lambda") == lambda.left_side().value());
  REQUIRE(row.real("lambda") > 0.5);
  CHECK_THAT(row.text("broken_assumptions"), Catch::Contains("lambda > 1/2"));
  unit.output_projection.clear();
  const Row unknown = analyse("scissorhands-bound", unit, {run}).at(0);
  CHECK(unknown.is_null("lambda"));
  CHECK_THAT(unknown.text("broken_assumptions"), !Catch::Contains("lambda"));
}

}  // namespace kvsim::analysis_test::scissorhands_lambda_test
