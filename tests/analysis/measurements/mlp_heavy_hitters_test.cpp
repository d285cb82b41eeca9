#include <catch2/catch.hpp>
#include <map>

#include "tests/analysis/analysed.h"
#include "tests/support/units.h"
#include "traces/synth/synth.h"

namespace kvsim::analysis_test::mlp_heavy_hitters_test {

/// Four tokens, three neurons.
Matrix small_layer() {
  Matrix activation(4, 3);
  activation << 0, 2, 0,   //
      -0.5f, 1, 0.25f,     //
      0, 3, 0,             //
      0.5f, 0.5f, -0.25f;  //
  return activation;
}

Unit unit_of(int tokens) { return test_support::random_unit({.tokens = tokens, .group = 3}, 1); }

TEST_CASE("mlp-heavy-hitters: a neuron is active where it gives more than the threshold") {
  const std::vector<Row> rows = analyse("mlp-heavy-hitters", unit_of(4), small_layer());
  REQUIRE(rows.size() == 3);
  const std::vector<std::vector<double>> expected{// neuron, active_share, activation
                                                  {1, 1, 6.5},
                                                  {0, 0.25, 1},
                                                  {2, 0.25, 0.5}};
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    CHECK(rows[rank].head == 0);
    CHECK(rows[rank].integer("rank") == static_cast<std::int64_t>(rank + 1));
    CHECK(static_cast<double>(rows[rank].integer("neuron")) == expected[rank][0]);
    CHECK(rows[rank].real("active_share") == expected[rank][1]);
    CHECK(rows[rank].real("activation") == expected[rank][2]);
  }
  const std::vector<Row> above =
      analyse("mlp-heavy-hitters:threshold=0.5", unit_of(4), small_layer());
  CHECK(above[0].real("active_share") == 0.75);  // 0.5 is not more than 0.5
  CHECK(above[1].real("active_share") == 0);
}

TEST_CASE("mlp-concentration: shares count neurons, and activation is what they sum up to") {
  const Row row = analyse("mlp-concentration", unit_of(4), small_layer()).at(0);
  CHECK(row.integer("neurons") == 3);
  CHECK(row.real("active_share") == Approx((4 + 1 + 1) / 12.0));
  CHECK(row.real("nearly_always_share") == Approx(1 / 3.0));
  CHECK(row.real("heavy_share") == 1);  // 1/4 is more than a fifth
  CHECK(row.real("rarely_share") == 0);
  CHECK(row.real("never_share") == 0);
  CHECK(row.real("best_20_percent") == Approx(6.5 / 8));  // of three neurons, one
  CHECK(row.text("verdict") == "too few values");
  CHECK(row.is_null("exponent"));
  CHECK(analyse("mlp-concentration:heavy=0.25", unit_of(4), small_layer())
            .at(0)
            .real("heavy_share") == Approx(1 / 3.0));
  const Row silent = analyse("mlp-concentration", unit_of(4), Matrix::Zero(4, 3)).at(0);
  CHECK(silent.real("never_share") == 1);
  CHECK(silent.real("rarely_share") == 1);
  CHECK(silent.is_null("best_1_percent"));
}

/// A layer whose neuron of rank r is active on n / r of n tokens.
Matrix planted_layer(int tokens, int neurons) {
  Matrix activation = Matrix::Zero(tokens, neurons);
  for (int rank = 1; rank <= neurons; ++rank) {
    activation.col(rank - 1).topRows(tokens / rank).setConstant(1);
  }
  return activation;
}

TEST_CASE("mlp-concentration: frequencies of 1 / rank are a power law of exponent 2") {
  const Row row = analyse("mlp-concentration", unit_of(4000), planted_layer(4000, 400)).at(0);
  CHECK(row.real("exponent") == Approx(2).epsilon(0.1));
  CHECK(row.text("verdict") == "plausible");
  CHECK(row.real("heavy_share") == Approx(4 / 400.0));  // ranks 1 to 4; the fifth has a fifth
  CHECK(row.real("nearly_always_share") == Approx(1 / 400.0));
  CHECK(row.real("rarely_share") == Approx(303 / 400.0));  // from 40 tokens, rank 98, on
}

TEST_CASE("mlp-concentration: neurons that are all alike are no power law and not concentrated") {
  Matrix activation = test_support::random_unit({.tokens = 200, .head_dim = 300}, 5).key;
  const Row row = analyse("mlp-concentration", unit_of(200), activation).at(0);
  CHECK(row.real("active_share") == Approx(0.5).margin(0.05));
  CHECK(row.real("heavy_share") == 1);
  CHECK(row.real("best_20_percent") < 0.3);
  CHECK(row.text("verdict") != "plausible");
}

}  // namespace kvsim::analysis_test::mlp_heavy_hitters_test
