#include "sim/outputs/step_attention.h"

#include <catch2/catch.hpp>

#include "sim/outputs/cached_attention.h"
#include "tests/support/units.h"

namespace kvsim::step_attention_test {

TEST_CASE("a step has the same weights and recall whether its heads are gathered together or not",
          "[outputs]") {
  constexpr int kTokens = 60;
  for (int group = 1; group <= 9; ++group) {
    const Unit unit = test_support::random_unit({.tokens = kTokens, .group = group}, 7);
    const auto backend = make_cpu_backend();
    ReplayedUnit replayed(unit, *backend, {});
    replayed.compute(0, kBlockSteps);
    replayed.compute(kBlockSteps, kTokens - kBlockSteps);
    CachedAttention together(replayed);
    CachedAttention alone(replayed);
    for (const int row : {5, 17}) {
      std::vector<std::int32_t> tokens;
      for (int token = row % 3; token < kBlockSteps + row; token += 2) tokens.push_back(token);
      tokens.push_back(kBlockSteps + row);
      together.gather(row, tokens);
      for (int head = 0; head < group; ++head) {
        together.attend(head, row, tokens);
        alone.attend(head, row, tokens);
        std::vector<float> mean(tokens.size());
        std::vector<float> mean_alone(tokens.size());
        together.add_to_mean(1, mean);
        alone.add_to_mean(1, mean_alone);
        REQUIRE(mean == mean_alone);
        const HeadAttention& full = replayed.block().heads[head];
        const double full_sum = full.weight_sum[row];
        double sum = full.sink_weight[row];
        int hits = 0;
        for (const std::int32_t token : tokens) {
          sum += full.weight(row, token);
          hits += is_pivotal(full.weight(row, token), full_sum, kBlockSteps + row);
        }
        const Measurement measured = together.measure_recall();
        CHECK(measured.attention_loss == (full_sum - sum) / full_sum);
        CHECK(measured.misses == full.num_pivotal[row] - hits);
        CHECK(measured.attention_loss == alone.measure_recall().attention_loss);
      }
    }
  }
}

}  // namespace kvsim::step_attention_test
