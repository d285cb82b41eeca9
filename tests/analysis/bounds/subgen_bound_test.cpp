#include <Eigen/SVD>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/analysis/analysed.h"
#include "tests/support/reference_replay.h"
#include "tests/support/subgen_algorithm.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::subgen_bound_test {

using test_support::random_unit;

TEST_CASE("subgen-bound: measured epsilon is the error over its unit", "[analysis]") {
  const Unit unit = random_unit({.tokens = 25, .head_dim = 3, .value_dim = 3}, 14);
  const PolicyRun run = run_of("subgen:delta=2,t=2", 20, unit);
  const Row row = analyse("subgen-bound:epsilon=0.3,constant=1", unit, {run}).at(0);
  const test_support::ReferenceAttention reference(unit, 0);
  std::vector<double> epsilons;
  for (int t = 0; t < 25; ++t) {
    double squares = 0;
    for (int j = 0; j <= t; ++j) squares += reference.full[t][j] * reference.full[t][j];
    const Eigen::MatrixXd values = unit.value.topRows(t + 1).cast<double>();
    const double spectral = Eigen::JacobiSVD<Eigen::MatrixXd>(values).singularValues()[0];
    epsilons.push_back(run.trajectory.output_error(0, t) * test_support::norm(reference.output[t]) /
                       (std::sqrt(squares) * spectral));
  }
  std::sort(epsilons.begin(), epsilons.end());
  CHECK(row.real("measured_max") == Approx(epsilons.back()).epsilon(1e-5));
  CHECK(row.real("measured_p50") == Approx(epsilons[12]).epsilon(1e-5));
  const auto within =
      std::count_if(epsilons.begin(), epsilons.end(), [](double e) { return e <= 0.3; });
  CHECK(row.real("within") == Approx(within / 25.0));
  const double radius = unit.query[0].rowwise().norm().maxCoeff() * unit.scale;
  CHECK(row.real("query_radius") == Approx(radius));
  CHECK(row.real("t_asked") ==
        std::ceil(std::exp(4 * row.real("query_radius")) * std::log(25) / 0.3 / 0.3));
  CHECK(row.real("s_asked") == std::ceil(3 / 0.3 / 0.3));
}

TEST_CASE("subgen-bound: where its assumptions hold, so does the theorem", "[analysis]") {
  // Equal keys form one cluster of width 0, and then a handful of samples is enough.
  Unit unit = random_unit({.tokens = 400, .head_dim = 2, .value_dim = 2}, 5);
  unit.key.rowwise() = Eigen::RowVector2f(0.5F, -0.25F);
  const Row row = analyse("subgen-bound:epsilon=0.9,constant=1", unit,
                          {run_of("subgen:delta=0,t=8,s=100", 209, unit)})
                      .at(0);
  CHECK(row.integer("s_used") == 100);
  CHECK(row.integer("t_used") == 8);
  CHECK(row.integer("steps") == 400);
  CHECK(row.integer("clusters") == 1);
  CHECK(row.integer("clusters_used") == 1);
  CHECK(row.real("t_asked") == 8);
  CHECK(row.integer("assumptions_hold") == 1);
  CHECK(row.integer("holds") == 1);
  const Row starved =
      analyse("subgen-bound:epsilon=0.9,constant=1", unit, {run_of("subgen:delta=0,t=4", 20, unit)})
          .at(0);
  CHECK(starved.integer("assumptions_hold") == 0);
  CHECK(starved.text("broken_assumptions") == "t is too small");
  unit.sliding_window = 50;
  const Row hidden = analyse("subgen-bound:epsilon=0.9,constant=1", unit,
                             {run_of("subgen:delta=0,t=8,s=2", 209, unit)})
                         .at(0);
  CHECK(hidden.text("broken_assumptions") == "s is too small; a window hides tokens");
  unit.sliding_window.reset();
  unit.attention_chunk = 50;
  const Row chunked = analyse("subgen-bound:epsilon=0.9,constant=1", unit,
                              {run_of("subgen:delta=0,t=8,s=2", 209, unit)})
                          .at(0);
  CHECK(chunked.text("broken_assumptions") == "s is too small; chunks hide tokens");
  unit.attention_chunk.reset();
  const int tokens = unit.num_tokens();
  unit.selected = random_unit({.tokens = tokens, .selected = 50}, 1).selected;
  const Row selecting = analyse("subgen-bound:epsilon=0.9,constant=1", unit,
                                {run_of("subgen:delta=0,t=8,s=2", 209, unit)})
                            .at(0);
  CHECK(selecting.text("broken_assumptions") == "s is too small; the model selects tokens");
  CHECK(analyse("subgen-bound", unit, {run_of("subgen+quant", 209, unit)}).empty());
}

/// Keys within `width` of one of three points; queries no longer than `longest` after scaling.
Unit clustered_unit(int tokens, float width, float longest) {
  Unit unit = random_unit({.tokens = tokens, .head_dim = 4, .value_dim = 4}, 33);
  for (int j = 0; j < tokens; ++j) {
    const Eigen::RowVectorXf offset = unit.key.row(j).normalized() * width / 2;
    unit.key.row(j) = offset;
    unit.key(j, j % 3) += 3;
    unit.query[0].row(j) *= longest / (unit.query[0].row(j).norm() * unit.scale);
  }
  return unit;
}

TEST_CASE("subgen-bound: Theorem 1 holds in its own regime, at a budget above the text's vectors",
          "[analysis]") {
  const Unit unit = clustered_unit(400, 0.2F, 1.5F);
  // With a constant of 10, t = epsilon^-2 e^(2 delta r) ln n and s = epsilon^-2 d.
  const Row row = analyse("subgen-bound:epsilon=0.5", unit,
                          {run_of("subgen:delta=0.2,t=450,s=500", 2500, unit)})
                      .at(0);
  CHECK(row.integer("clusters") == 3);
  CHECK(row.integer("clusters_used") == 3);
  CHECK(row.integer("far_keys") == 0);
  CHECK(row.real("t_asked") == 437);
  CHECK(row.real("s_asked") == 160);
  CHECK(row.integer("t_used") == 450);
  CHECK(row.integer("s_used") == 500);
  CHECK(row.text("broken_assumptions").empty());
  CHECK(row.integer("holds") == 1);
  CHECK(row.real("within") == 1);

  // Algorithm 1 with coins of its own errs as much.
  std::mt19937_64 bits(7);
  const test_support::Coin coin = [&](int, int, double p) {
    return std::uniform_real_distribution<double>()(bits) < p;
  };
  const auto estimate = test_support::subgen_algorithm(unit, 0, 0.2, 500, 450, coin, coin);
  const auto exact = test_support::exact_attention(unit, 0);
  const test_support::ReferenceAttention reference(unit, 0);
  std::vector<double> epsilons;
  for (int t = 0; t < 400; ++t) {
    double squares = 0;
    for (int j = 0; j <= t; ++j) squares += reference.full[t][j] * reference.full[t][j];
    const Eigen::MatrixXd values = unit.value.topRows(t + 1).cast<double>();
    const double spectral = Eigen::JacobiSVD<Eigen::MatrixXd>(values).singularValues()[0];
    epsilons.push_back((estimate[t] - exact[t]).norm() / (std::sqrt(squares) * spectral));
  }
  std::sort(epsilons.begin(), epsilons.end());
  CHECK(epsilons.back() <= 0.5);
  CHECK(row.real("measured_p50") == Approx(epsilons[200]).epsilon(0.4));
}

TEST_CASE("subgen-bound: Theorem 1 holds with fewer vectors than the text has, for every seed",
          "[analysis]") {
  constexpr int kTokens = 2500;  // 5,000 vectors
  constexpr int kSeeds = 3;
  const Unit unit = clustered_unit(kTokens, 0.2F, 1.5F);
  const auto row_of = [&](const std::vector<PolicyRun>& runs) {
    return analyse("subgen-bound:epsilon=0.5", unit, runs);
  };
  // What the theorem asks for: m = 3 clusters, t = 10 epsilon^-2 e^(2 delta r) ln n, s likewise.
  const Row asked = row_of({run_of("subgen:delta=0.2,s=1,t=1", 8, unit)}).at(0);
  const auto t = static_cast<int>(asked.real("t_asked"));
  const auto s = static_cast<int>(asked.real("s_asked"));
  CHECK(t == std::ceil(40 * std::exp(0.6) * std::log(kTokens)));
  CHECK(s == 160);
  const int budget = 3 * (t + 1) + 2 * s;
  CHECK(asked.real("vectors_asked") == budget);
  CHECK(budget < kTokens);

  const std::string policy = "subgen:delta=0.2,s=" + std::to_string(s) + ",t=" + std::to_string(t);
  std::vector<PolicyRun> runs;
  for (int seed = 0; seed < kSeeds; ++seed) {
    runs.push_back(run_of(policy, budget, unit, Mode::stream, seed));
    CHECK(runs.back().peak <= budget);
  }
  runs.push_back(run_of(policy, budget - 1, unit));
  runs.push_back(run_of(policy, budget + 700, unit));
  const std::vector<Row> rows = row_of(runs);
  for (int seed = 0; seed < kSeeds; ++seed) {
    CHECK(rows[seed].integer("clusters_used") == 3);
    CHECK(rows[seed].integer("far_keys") == 0);
    CHECK(rows[seed].text("broken_assumptions").empty());
    CHECK(rows[seed].integer("holds") == 1);
    CHECK(rows[seed].real("within") == 1);
  }
  CHECK(rows[0].real("measured_max") != rows[1].real("measured_max"));
  // A vector less has no room for the third cluster; more vectors change nothing.
  CHECK(rows[kSeeds].integer("clusters_used") == 2);
  CHECK(rows[kSeeds].text("broken_assumptions") == "the budget has no room for all clusters");
  CHECK(rows[kSeeds + 1].real("measured_max") == rows[0].real("measured_max"));
  CHECK(runs[kSeeds + 1].peak == runs[0].peak);
}

TEST_CASE("subgen-bound: a row says what ran where the budget is too small", "[analysis]") {
  const Unit unit = clustered_unit(100, 4, 1);
  const auto row_of = [&](const std::string& policy, int budget) {
    return analyse("subgen-bound", unit, {run_of(policy, budget, unit)}).at(0);
  };
  const Row alone = row_of("subgen:t=64", 60);
  CHECK(alone.integer("s_used") == 0);
  CHECK(alone.integer("t_used") == 0);
  CHECK(alone.integer("clusters_used") == 0);
  CHECK(alone.text("broken_assumptions").starts_with("the budget has no room for a sample"));
  const Row crowded = row_of("subgen:delta=0.1,s=10,t=2", 41);
  CHECK(crowded.integer("s_used") == 10);
  CHECK(crowded.integer("clusters_used") == 7);
  CHECK(crowded.integer("far_keys") > 0);
  CHECK_THAT(crowded.text("broken_assumptions"), Catch::Contains("no room for all clusters"));
}

}  // namespace kvsim::analysis_test::subgen_bound_test
