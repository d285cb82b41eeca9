#include <catch2/catch.hpp>

#include "policies/registry/spec.h"
#include "sim/cache/cache.h"

namespace kvsim::topk_test {

using Tokens = std::vector<std::int32_t>;

/// Per step the tokens that it attends to, given attention to all.
std::vector<Tokens> attended(const std::string& spec, int budget,
                             const std::vector<std::vector<float>>& attention) {
  const auto policy = Spec(spec).make({.budget = budget});
  Cache cache(static_cast<int>(attention.size()), budget, policy->rules());
  std::vector<Tokens> attended;
  for (int t = 0; t < static_cast<int>(attention.size()); ++t) {
    cache.admit(t);
    const std::vector<float>& row = attention[static_cast<std::size_t>(t)];
    policy->update({.index = t, .tokens = cache.tokens(), .attention = row, .full_attention = row},
                   cache.scores());
    attended.push_back(cache.select(budget));
  }
  return attended;
}

TEST_CASE("topk attends to itself and the older tokens with the most attention", "[policies]") {
  CHECK(attended("topk", 2,
                 {{1.0},
                  {0.9, 0.1},
                  {0.2, 0.7, 0.1},
                  {0.1, 0.5, 0.2, 0.2},
                  {0.4, 0.1, 0.1, 0.4, 0.0}}) ==  // what step 3 left out is there again
        std::vector<Tokens>{{0}, {0, 1}, {0, 1, 2}, {1, 2, 3}, {0, 3, 4}});
}

TEST_CASE("topk prefers the later of equally attended tokens", "[policies]") {
  CHECK(attended("topk", 1, {{1.0}, {0.5, 0.5}, {0.3, 0.3, 0.4}}).back() == Tokens{1, 2});
}

TEST_CASE("topk with h2 gives that share of the budget to heavy hitters", "[policies]") {
  // Up to step 2 token 0 has 2.1 and token 1 has 0.8. Step 3 attends to 1 and 2 most.
  const std::vector<std::vector<float>> attention = {
      {1.0}, {0.7, 0.3}, {0.4, 0.5, 0.1}, {0.0, 0.4, 0.5, 0.1}};
  CHECK(attended("topk", 2, attention).back() == Tokens{1, 2, 3});
  CHECK(attended("topk:h2=0.5", 2, attention).back() == Tokens{0, 2, 3});
  CHECK(attended("topk:h2=1", 2, attention).back() == Tokens{0, 1, 3});
}

TEST_CASE("heavy hitters of topk are those up to the step before, the later among equals",
          "[policies]") {
  // Before step 2 token 0 and token 1 have 1 each; step 2 gives 0 more, which comes too late.
  CHECK(attended("topk:h2=1", 1, {{1.0}, {0.0, 1.0}, {1.0, 0.0, 0.0}}).back() == Tokens{1, 2});
}

}  // namespace kvsim::topk_test
