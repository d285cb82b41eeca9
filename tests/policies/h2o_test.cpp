#include <catch2/catch.hpp>

#include "tests/policies/kept_tokens.h"

namespace kvsim {
namespace {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;

// H2O (Zhang et al., NeurIPS 2023), figure 3: with room for three tokens the third one leaves after
// the fourth step.
TEST_CASE("h2o evicts the token with the least accumulated attention", "[policies]") {
  const Attention attention = {{1.0},
                               {0.6, 0.4},
                               {0.6, 0.3, 0.1},
                               {0.3, 0.2, 0.1, 0.4},        // sums 2.5, 0.9, 0.2, 0.4: 2 goes
                               {0.4, 0.1, 0.0, 0.2, 0.3}};  // sums 2.9, 1.0, -, 0.6, 0.3: 4 goes
  CHECK(evicted_after("h2o:recent=0", 3, attention) == Steps{5, 5, 3, 5, 4});
}

TEST_CASE("h2o never evicts its recent window", "[policies]") {
  const Attention attention = {
      {1.0}, {0.6, 0.4}, {0.6, 0.3, 0.1}, {0.3, 0.2, 0.1, 0.4}, {0.4, 0.1, 0.0, 0.2, 0.3}};
  SECTION("of one token") {
    // The fifth step's candidates are 0, 1 and 3 with 2.9, 1.0 and 0.6.
    CHECK(evicted_after("h2o:recent=1", 3, attention) == Steps{5, 5, 3, 4, 5});
  }
  SECTION("of half the budget, rounded up") {
    // Of 0, 1, 2 and 3 the last two are recent; 1 has less than 0. Then 0, 2 | 3, 4.
    const Attention two = {
        {1.0}, {0.6, 0.4}, {0.6, 0.3, 0.1}, {0.3, 0.2, 0.1, 0.4}, {0.4, 0.0, 0.1, 0.2, 0.3}};
    CHECK(evicted_after("h2o", 3, two) == Steps{5, 3, 4, 5, 5});
    CHECK(evicted_after("h2o:recent=2", 3, two) == Steps{5, 3, 4, 5, 5});
  }
}

TEST_CASE("h2o whose recent window fills the budget is window", "[policies]") {
  const Attention attention = any_attention(6);
  const Steps window = evicted_after("window", 2, attention);
  CHECK(evicted_after("h2o:recent=1.0", 2, attention) == window);
  CHECK(evicted_after("h2o:recent=2", 2, attention) == window);
  CHECK(evicted_after("h2o:recent=100", 2, attention) == window);
}

TEST_CASE("h2o tells one recent token from a share of one", "[policies]") {
  const Attention attention = {{1.0}, {0.0, 1.0}, {0.0, 0.5, 0.5}, {0.8, 0.0, 0.1, 0.1}};
  // With recent=1 token 2 goes for its 0.6, with recent=1.0 token 0 for its age.
  CHECK(evicted_after("h2o:recent=1", 3, attention) == Steps{4, 4, 3, 4});
  CHECK(evicted_after("h2o:recent=1.0", 3, attention) == Steps{3, 4, 4, 4});
}

TEST_CASE("the sum favours the old and the mean the young", "[policies]") {
  const Attention attention = {{1.0}, {0.05, 0.95}, {0.05, 0.05, 0.9}};
  // Sums 1.1 and 1.0, means 1.1 / 3 and 1.0 / 2.
  CHECK(evicted_after("h2o:recent=1,score=sum", 2, attention) == Steps{3, 2, 3});
  CHECK(evicted_after("h2o:recent=1,score=mean", 2, attention) == Steps{2, 3, 3});
}

TEST_CASE("the mean is over the steps since the token arrived", "[policies]") {
  const Attention attention = {{1.0},
                               {0.4, 0.6},
                               {0.2, 0.4, 0.4},        // means 1.6/3, 1.0/2, 0.4: 2 goes
                               {0.4, 0.2, 0.0, 0.4}};  // means 2.0/4, 1.2/3, 0.4/1
  // 1 and 3 tie at 0.4 but for rounding, so only 2's departure and 0's stay are certain.
  const Steps steps = evicted_after("h2o:recent=0,score=mean", 2, attention);
  CHECK(steps[2] == 2);
  CHECK(steps[0] == 4);
}

TEST_CASE("full attention counts what the missing tokens would have taken", "[policies]") {
  const Attention cached = {{1.0}, {0.05, 0.95}, {0.05, 0.05, 0.9}, {0.1, 0.0, 0.35, 0.55}};
  // At the last step token 1, which has left, would have taken nine tenths.
  const Attention full = {{1.0}, {0.05, 0.95}, {0.05, 0.05, 0.9}, {0.01, 0.9, 0.035, 0.055}};
  // Sums 1.2 and 1.25 of what was seen, 1.11 and 0.935 of full attention.
  CHECK(evicted_after("h2o:recent=1,score=sum", 2, cached) == Steps{3, 2, 4, 4});
  CHECK(evicted_after("h2o:recent=1,score=full", 2, cached, full) == Steps{4, 2, 3, 4});
}

TEST_CASE("h2o lets the first of equally heavy tokens go", "[policies]") {
  const Attention attention = {
      {1}, {0, 1}, {0, 0, 1}, {0, 0, 0, 1}};  // every token has 1 from its own step
  CHECK(evicted_after("h2o:recent=0", 2, attention) == Steps{2, 3, 4, 4});
}

TEST_CASE("h2o accumulates over the prompt and then evicts at once", "[policies]") {
  const Attention attention = {{1.0},
                               {0.5, 0.5},
                               {0.1, 0.8, 0.1},
                               {0.1, 0.1, 0.5, 0.3},        // sums 1.7, 1.4, 0.6 | 0.3
                               {0.2, 0.1, 0.3, 0.2, 0.2}};  // sums 1.9, 1.5, 0.9, 0.5 | 0.2
  CHECK(evicted_after("h2o:recent=1", 3, attention, {}, 5) == Steps{5, 5, 4, 4, 5});
  CHECK(evicted_after("h2o:recent=0", 3, attention, {}, 5) == Steps{5, 5, 5, 4, 4});
}

}  // namespace
}  // namespace kvsim
