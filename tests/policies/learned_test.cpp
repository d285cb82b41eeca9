#include <catch2/catch.hpp>
#include <cmath>

#include "policies/learned/scorer.h"
#include "policies/learned/scoring_kernels.h"
#include "sim/base/errors.h"
#include "sim/base/random_bits.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::learned_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;

/// A linear scorer of features with these weights.
Spec linear(const std::string& settings, const std::vector<std::string>& features,
            const std::vector<float>& weights) {
  auto scorer = std::make_shared<Scorer>();
  scorer->layers = scorer->kv_heads = scorer->head_dim = scorer->value_dim = 1;
  for (const std::string& name : features) scorer->features.push_back(*find_feature(name));
  scorer->weights = weights;
  scorer->bias = {0};
  return Spec("learned:file=none" + settings).with_scorer(scorer);
}

// Sums 2.25, 1.0, 0.5 before the first eviction.
const Attention kAttention = {{1},
                              {0.5, 0.5},
                              {0.5, 0.25, 0.25},
                              {0.25, 0.25, 0.25, 0.25},
                              {0.125, 0.125, 0.5, 0.125, 0.125}};

Steps left_after(const Spec& spec) {
  return evicted_after(spec, 3, {.attention = kAttention, .values = {}, .prompt = 0});
}

TEST_CASE("learned evicts by the features of its scorer", "[policies]") {
  // Means per step 0.56, 0.33, 0.25: token 2 goes; then 0.48, 0.28 and 0.19: token 3.
  CHECK(left_after(linear(",sinks=0", {"mean"}, {1})) == Steps{5, 5, 3, 4, 5});
  // The oldest first, as a window.
  CHECK(left_after(linear(",sinks=0", {"age"}, {-1})) == Steps{3, 4, 5, 5, 5});
  CHECK(left_after(linear(",sinks=1", {"age"}, {-1})) == Steps{5, 3, 4, 5, 5});
  // The youngest first, but for those that are protected.
  CHECK(left_after(linear(",sinks=0", {"age"}, {1})) == Steps{5, 5, 3, 4, 5});
  CHECK(left_after(linear(",sinks=0,recent=2", {"age"}, {1})) == Steps{5, 3, 4, 5, 5});
}

TEST_CASE("learned asks for what its file reads, once it is there", "[policies]") {
  const Rules rules = linear("", {"value_norm", "punctuation"}, {1, 1}).rules({.budget = 8});
  CHECK(rules.sees_values);
  CHECK(rules.sees_kinds);
  CHECK_FALSE(rules.sees_rotation);
  CHECK(rules.protect_newest == 1);
  CHECK_FALSE(Spec("learned:file=none").rules({.budget = 8}).sees_values);
  CHECK_THROWS_AS(left_after(Spec("learned:file=none")), UsageError);
  CHECK_THROWS_WITH(Spec("learned"), Catch::Contains("learned:file=PATH"));
}

TEST_CASE("features have the names of the page alone", "[policies]") {
  CHECK(find_feature("decayed:0.5")->rate == 0.5F);
  for (const char* name : {"", "decayed", "decayed:", "decayed:1", "decayed:0", "now:0.5",
                           "decayed:nan", "neighbours:0.5x", "Key"}) {
    CAPTURE(name);
    CHECK_FALSE(find_feature(name).has_value());
  }
}

std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
  std::vector<float> found;
  for (std::size_t i = 0; i < count; ++i) {
    found.push_back(static_cast<float>(random_bits(seed, i) >> 40U) / (1U << 24U));
  }
  return found;
}

TEST_CASE("scoring kernels give the bits of plain loops", "[policies]") {
  const std::size_t size = 77;
  const std::vector<float> a = numbers(size, 1);
  const std::vector<float> b = numbers(size, 2);
  const float* const columns[] = {a.data(), b.data()};
  const float weights[] = {0.7F, -0.9F};
  std::vector<float> sums(size, 0.1F);
  std::vector<float> outputs(size, 0.2F);
  std::vector<float> roots = a;
  add_weighted(columns, weights, sums);
  add_unit(columns, weights, b.data(), -3, outputs);
  take_eighth_roots(roots);
  for (std::size_t i = 0; i < size; ++i) {
    CAPTURE(i);
    const float first = weights[0] * a[i];
    const float second = weights[1] * b[i];
    CHECK(sums[i] == (0.1F + first) + second);
    const float hidden = (b[i] + first) + second;
    const float active = -3 * std::max(hidden, 0.0F);
    CHECK(outputs[i] == 0.2F + active);
    CHECK(roots[i] == std::sqrt(std::sqrt(std::sqrt(a[i]))));
  }
}

TEST_CASE("trees in vectors choose the leaves that a walk finds", "[policies]") {
  for (int depth = 1; depth <= kDeepestInVectors; ++depth) {
    const std::size_t splits = (std::size_t{1} << static_cast<unsigned>(depth)) - 1;
    const std::vector<float> tile = numbers(2 * kTileTokens, 3);
    const std::vector<float> thresholds = numbers(splits, 4);
    const std::vector<float> leaves = numbers(splits + 1, 5);
    std::vector<std::int32_t> rows;
    for (std::size_t i = 0; i < splits; ++i) rows.push_back(static_cast<std::int32_t>(i % 2));
    std::vector<float> sums(kTileTokens, 1);
    add_leaves({rows.data(), thresholds.data(), leaves.data()}, depth, tile.data(), sums.data());
    for (std::size_t token = 0; token < kTileTokens; ++token) {
      std::size_t node = 0;
      while (node < splits) {
        const float x = tile[static_cast<std::size_t>(rows[node]) * kTileTokens + token];
        node = 2 * node + (x <= thresholds[node] ? 1 : 2);
      }
      CAPTURE(depth, token);
      CHECK(sums[token] == 1 + leaves[node - splits]);
    }
  }
}

}  // namespace kvsim::learned_test
