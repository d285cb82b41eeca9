#include <catch2/catch.hpp>

#include "tests/support/kept_tokens.h"

namespace kvsim::spatten_test {

using namespace policies_test;
using Scores = std::vector<double>;

/// What one layer is shown at step `t`, and the scores that it gets for that.
Scores scored(Policy& policy, int t, const std::vector<std::int32_t>& tokens,
              const std::vector<float>& attention) {
  Scores scores(tokens.size(), 0);
  policy.update({.index = t, .tokens = tokens, .attention = attention}, scores);
  return scores;
}

TEST_CASE("spatten decides for the whole model", "[policies]") {
  CHECK(Spec("spatten").rules({.budget = 2}).scope == Scope::model);
  CHECK(Spec("spatten").rules({.budget = 2}).protect_newest == 0);
}

TEST_CASE("spatten accumulates attention over layers and steps", "[policies]") {
  const auto policy = Spec("spatten").make({.budget = 2});
  CHECK(scored(*policy, 0, {0}, {1}) == Scores{1});  // layer 0
  CHECK(scored(*policy, 0, {0}, {1}) == Scores{2});  // layer 1
  CHECK(scored(*policy, 1, {0, 1}, {0.75, 0.25}) == Scores{2.75, 0.25});
  CHECK(scored(*policy, 1, {0, 1}, {0.25, 0.75}) == Scores{3, 1});
  CHECK(scored(*policy, 2, {0, 1, 2}, {0.25, 0.25, 0.5}) == Scores{3.25, 1.25, 0.5});
  // Token 2 has left layer 0, and layer 1 with it: its attention no longer counts.
  CHECK(scored(*policy, 2, {0, 1}, {0.5, 0.5}) == Scores{3.75, 1.75});
  CHECK(scored(*policy, 3, {0, 1, 3}, {0.5, 0.25, 0.25}) == Scores{4.25, 2, 0.25});
}

TEST_CASE("a layer of spatten ranks tokens by what all layers saw", "[policies]") {
  const auto policy = Spec("spatten").make({.budget = 1});
  scored(*policy, 0, {0}, {1});
  scored(*policy, 0, {0}, {1});
  scored(*policy, 1, {0, 1}, {0.25, 0.75});
  // In layer 1 alone both tokens would have 1.
  CHECK(scored(*policy, 1, {0, 1}, {0, 1}) == Scores{2.25, 1.75});
}

TEST_CASE("with one layer spatten is h2o without a recent window", "[policies]") {
  const Attention attention = {{1.0},
                               {0.6, 0.4},
                               {0.6, 0.3, 0.1},
                               {0.3, 0.2, 0.1, 0.4},        // sums 2.5, 0.9, 0.2, 0.4: 2 goes
                               {0.4, 0.1, 0.0, 0.2, 0.3}};  // sums 2.9, 1.0, -, 0.6, 0.3: 4 goes
  CHECK(evicted_after("spatten", 3, attention) == std::vector<std::int32_t>{5, 5, 3, 5, 4});
}

}  // namespace kvsim::spatten_test
