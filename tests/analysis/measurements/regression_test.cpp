#include <catch2/catch.hpp>
#include <cmath>

#include "analysis/fits/softmax_regression.h"
#include "tests/analysis/analysed.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::regression_test {

TEST_CASE("regression: no point near the solution has a smaller loss", "[analysis]") {
  const Unit unit = test_support::random_unit({.tokens = 60, .head_dim = 3, .group = 2}, 17);
  const std::vector<Row> rows = analyse("regression:steps=3", unit);
  REQUIRE(rows.size() == 2 * 3);
  for (const Row& row : rows) {
    CHECK(row.integer("tokens") == row.integer("step") + 1);
    CHECK(row.integer("converged") == 1);
    CHECK(row.integer("assumptions_hold") == 1);
    CHECK(row.real("least_eigenvalue") >= row.real("l"));
    CHECK(row.real("gradient_norm") < 1e-6);
    const auto step = static_cast<int>(row.integer("step"));
    const auto attention = test_support::ReferenceAttention(unit, row.head).full[step];
    const Eigen::VectorXd b = Eigen::Map<const Eigen::VectorXd>(attention.data(), step + 1);
    const Eigen::MatrixXd a = double{unit.scale} * unit.key.topRows(step + 1).cast<double>();
    const Eigen::VectorXd w =
        Eigen::VectorXd::Constant(step + 1, std::sqrt(row.real("weight_used")));
    const SoftmaxRegression regression(a, b, w);
    CHECK(row.real("loss") <= regression.losses(Eigen::Vector3d::Zero()).total());
    CHECK(row.real("loss") <= regression.losses(Eigen::Vector3d(0.1, 0, -0.1)).total());
    CHECK(row.real("loss") ==
          Approx(row.real("loss_exp") + row.real("loss_sparse") + row.real("loss_reg")));
  }
}

TEST_CASE("regression: keys that do not span their space are not solved, with a reason",
          "[analysis]") {
  const Unit unit = test_support::random_unit({.tokens = 3, .head_dim = 4}, 2);
  const Row row = analyse("regression", unit).at(0);
  CHECK_FALSE(row.text("not_solved").empty());
  CHECK(row.is_null("loss"));
}

}  // namespace kvsim::analysis_test::regression_test
