#include "sim/attention/attention.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/attention/attention_blocks.h"
#include "tests/support/compare.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::attention_test {

using namespace test_support;

// Compares a block with the definitions.
void check_block(const ReferenceUnit& reference, const AttentionBlock& block) {
  REQUIRE(block.heads.size() == reference.heads.size());
  for (int row = 0; row < block.num_steps; ++row) {
    const int t = block.first_step + row;
    const auto at = static_cast<std::size_t>(row);
    const auto step = static_cast<std::size_t>(t);
    REQUIRE(close(block.longest_value[at], reference.longest_value[step], 1e-12));
    for (std::size_t h = 0; h < block.heads.size(); ++h) {
      const HeadAttention& head = block.heads[h];
      const std::vector<double>& full = reference.heads[h].full[step];
      int pivotal = 0;
      for (int j = 0; j < head.weight.cols(); ++j) {
        const double a = j <= t ? full[static_cast<std::size_t>(j)] : 0;
        const double weight = head.weight(row, j);
        REQUIRE(close(weight / head.weight_sum[at], a, 1e-5));
        if (j <= t) pivotal += a > 1.0 / (t + 1);
        if (a == 0) REQUIRE(weight == 0);
      }
      REQUIRE(head.num_pivotal[at] == pivotal);
      for (Eigen::Index c = 0; c < head.output.cols(); ++c) {
        const double expected = reference.heads[h].output[step][static_cast<std::size_t>(c)];
        REQUIRE(close(head.output(row, c), expected, 1e-5, 1e-6));
      }
    }
  }
}

TEST_CASE("a step attends to what it selects alone, and to nothing that its window hides") {
  Unit unit = test_support::random_unit({.tokens = 100, .group = 2, .selected = 7}, 4);
  if (GENERATE(false, true)) unit.sliding_window = 90;
  const auto pass = make_cpu_backend()->attend(unit);
  AttentionBlock block;
  pass->compute(70, 30, Outputs::required, block);
  for (int row = 0; row < block.num_steps; ++row) {
    const int step = 70 + row;
    std::vector<std::int32_t> seen;
    for (const std::int32_t token : unit.selected->at(step)) {
      if (!unit.sliding_window || step - token < *unit.sliding_window) seen.push_back(token);
    }
    CHECK(visible_tokens(unit, step) == seen);
    for (const HeadAttention& head : block.heads) {
      double sum = 0;
      Eigen::RowVectorXd output = Eigen::RowVectorXd::Zero(unit.value.cols());
      for (int token = 0; token <= step; ++token) {
        const bool is_seen = std::ranges::binary_search(seen, token);
        CHECK(is_visible(unit, step, token) == is_seen);
        CHECK((head.weight(row, token) > 0) == is_seen);
        sum += head.weight(row, token);
        output += head.weight(row, token) * unit.value.row(token).cast<double>();
      }
      CHECK(head.weight_sum[row] == Approx(sum));
      CHECK(head.output.row(row).isApprox(output / sum, 1e-6));
    }
  }
}

TEST_CASE("full attention is the same however the steps are split into blocks", "[attention]") {
  Unit unit = random_unit({.tokens = 131, .head_dim = 5, .value_dim = 3, .group = 2}, 41);
  if (GENERATE(false, true)) unit.sliding_window = 17;
  if (GENERATE(false, true)) unit.logit_softcap = 3.F;
  if (GENERATE(false, true)) unit.sink_logit = {-1.F, 6.F};
  if (GENERATE(false, true)) unit.attention_chunk = 40;
  const ReferenceUnit reference(unit);
  const int size = GENERATE(1, 7, 31, 32);
  const auto backend = make_cpu_backend();
  const auto pass = backend->attend(unit);
  AttentionBlock block;  // reused, as in a replay
  for (int step = 0; step < 131; step += size) {
    pass->compute(step, std::min(size, 131 - step), Outputs::required, block);
    CHECK(block.first_step == step);
    check_block(reference, block);
  }
}

TEST_CASE("equal logits get equal weights wherever they are in a row", "[attention]") {
  const Unit unit = unit_of_logits(67, [](int t, int j) { return -1.37F * ((t * 5 + j * 3) % 4); });
  for_each_block(unit, 67, *make_cpu_backend(), [](const AttentionBlock& block) {
    for (int row = 0; row < block.num_steps; ++row) {
      const auto weight = block.heads[0].weight.row(row);
      for (int j = 4; j <= block.first_step + row; ++j) REQUIRE(weight[j] == weight[j - 4]);
    }
  });
}

TEST_CASE("a logit far below the largest has weight 0", "[attention]") {
  const Unit unit = unit_of_logits(33, [](int, int j) { return j == 0 ? 0.F : -1000.F; });
  AttentionBlock block;
  make_cpu_backend()->attend(unit)->compute(0, 32, Outputs::required, block);
  CHECK(block.heads[0].weight.col(0).isOnes(0));
  CHECK(block.heads[0].weight.rightCols(31).isZero(0));
}

TEST_CASE("no logit of a sink overflows, and none is soft-capped", "[attention]") {
  Unit unit = unit_of_logits(33, [](int t, int j) { return static_cast<float>((t + j) % 3); });
  unit.logit_softcap = 1.F;
  for (const float sink : {-3e38F, -50.F, 0.F, 5.F, 50.F, 90.F, 3e38F}) {
    CAPTURE(sink);
    unit.sink_logit = {sink};
    AttentionBlock block;
    make_cpu_backend()->attend(unit)->compute(0, 32, Outputs::required, block);
    const ReferenceAttention reference(unit, 0);
    const HeadAttention& head = block.heads[0];
    for (int t = 0; t < 32; ++t) {
      double tokens = 0;
      for (int j = 0; j <= t; ++j) tokens += head.weight(t, j);
      REQUIRE(head.weight_sum[t] == Approx(tokens + head.sink_weight[t]));
      REQUIRE(head.weight_sum[t] >= 0.999);
      for (int j = 0; j <= t; ++j) {
        REQUIRE(close(head.weight(t, j) / head.weight_sum[t], reference.full[t][j], 1e-5, 1e-38));
      }
      REQUIRE(head.output.row(t).allFinite());
    }
  }
}

TEST_CASE("a sliding window hides older tokens", "[attention]") {
  Unit unit = random_unit({.tokens = 10}, 42);
  CHECK(first_visible(unit, 9) == 0);
  unit.sliding_window = 3;
  CHECK(first_visible(unit, 0) == 0);
  CHECK(first_visible(unit, 2) == 0);
  CHECK(first_visible(unit, 3) == 1);
  CHECK(first_visible(unit, 9) == 7);
}

TEST_CASE("a chunk hides the tokens of the chunks before it", "[attention]") {
  Unit unit = random_unit({.tokens = 10}, 42);
  unit.attention_chunk = 4;
  CHECK(first_visible(unit, 0) == 0);
  CHECK(first_visible(unit, 3) == 0);
  CHECK(first_visible(unit, 4) == 4);
  CHECK(first_visible(unit, 7) == 4);
  CHECK(first_visible(unit, 9) == 8);
  unit.sliding_window = 2;
  CHECK(first_visible(unit, 3) == 2);
  CHECK(first_visible(unit, 4) == 4);
}

}  // namespace kvsim::attention_test
