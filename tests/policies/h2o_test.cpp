#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "sim/base/random_bits.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::h2o_test {

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
  CHECK(evicted_after("h2o:recent=0,overlap=yes", 2, attention) == Steps{2, 3, 4, 4});
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

// Figure 2c: the model without its heavy hitters.
TEST_CASE("h2o that keeps the light evicts the token with the most accumulated attention",
          "[policies]") {
  const Attention attention = {{1.0},
                               {0.6, 0.4},
                               {0.6, 0.3, 0.1},
                               {0.3, 0.2, 0.1, 0.4},        // sums 2.5, 0.9, 0.2, 0.4: 0 goes
                               {0.0, 0.1, 0.2, 0.3, 0.4}};  // sums 1.0, 0.4, 0.7, 0.4: 1 goes
  CHECK(evicted_after("h2o:recent=0,keep=light", 3, attention) == Steps{3, 4, 5, 5, 5});
  CHECK(evicted_after("h2o:recent=0,keep=light,precision=half", 3, attention) ==
        Steps{3, 4, 5, 5, 5});
  // Means at the last step 1.0 / 4, 0.4 / 3, 0.7 / 2 and 0.4: the newest goes unless protected.
  CHECK(evicted_after("h2o:recent=0,keep=light,score=mean", 3, attention) == Steps{3, 5, 5, 5, 4});
  CHECK(evicted_after("h2o:recent=1,keep=light,score=mean", 3, attention) == Steps{3, 5, 5, 4, 5});
}

TEST_CASE("overlapping heavy hitters and recent tokens leave room in the budget", "[policies]") {
  const Attention attention = {{1.0},
                               {0.6, 0.4},
                               {0.5, 0.1, 0.4},                  // sums 2.1, 0.5 | 2 is out by 0.4
                               {0.3, 0.1, 0.5, 0.1},             // sums 2.4, 0.6 | 3 is out by 0.1
                               {0.2, 0.0, 0.1, 0.0, 0.7},        // sums 2.6, 0.7 | 1 is out by 0.6
                               {0.2, 0.0, 0.0, 0.4, 0.3, 0.1}};  // sums 2.8, 1.0 | 5 is out by 0.1
  // Two heavy hitters and two recent tokens. After step 4, 1 and 2 are neither: 0, 3 and 4 stay.
  // Token 2 is out for good by its first step, for all its 1.0 later on, and so is 3.
  CHECK(evicted_after("h2o:recent=2,overlap=yes", 4, attention) == Steps{6, 4, 4, 5, 6, 6});
  CHECK(evicted_after("h2o:recent=2", 4, attention) == Steps{6, 4, 6, 5, 6, 6});
}

TEST_CASE("overlapping h2o lets tokens go before the budget is full", "[policies]") {
  const Attention attention = {
      {1.0}, {0.9, 0.1}, {0.7, 0.1, 0.2}, {0.3, 0.0, 0.3, 0.4}};  // sums 2.9, 0.2, 0.5, 0.4
  // Of three heavy hitters and one recent token none is 1, though there is room for four.
  CHECK(evicted_after("h2o:recent=1,overlap=yes", 4, attention) == Steps{4, 3, 4, 4});
  CHECK(evicted_after("h2o:recent=1", 4, attention) == Steps{4, 4, 4, 4});
}

TEST_CASE("overlapping h2o is Algorithm 2 with a smaller budget, and a window", "[policies]") {
  // Full attention, so that the sums of the one do not depend on what the other evicts.
  constexpr std::int32_t kSteps = 60;
  Attention attention;
  for (std::uint64_t t = 0; t < kSteps; ++t) {
    std::vector<float>& row = attention.emplace_back();
    for (std::uint64_t j = 0; j <= t; ++j) {
      row.push_back(static_cast<float>(random_bits(t, j) % 1000) / 1000);
    }
  }
  const auto score = GENERATE(std::string("full"), std::string("mean"));
  const auto keep = GENERATE(std::string("heavy"), std::string("light"));
  for (const std::int32_t recent : {0, 1, 4, 11, 12, 20}) {
    const std::int32_t budget = 12;
    const std::int32_t window = std::min(recent, budget);
    CAPTURE(score, keep, recent);
    const Steps overlapping = evicted_after(
        fmt::format("h2o:recent={},score={},overlap=yes,keep={}", recent, score, keep), budget,
        attention, attention);
    Steps either(kSteps, 0);
    if (budget > window) {
      either = evicted_after(fmt::format("h2o:recent=0,score={},keep={}", score, keep),
                             budget - window, attention, attention);
    }
    for (std::int32_t token = 0; token < kSteps; ++token) {
      std::int32_t& step = either[static_cast<std::size_t>(token)];
      step = std::max(step, std::min(token + window, kSteps));
    }
    CHECK(overlapping == either);
  }
}

TEST_CASE("sums in half precision stop growing at 2048", "[policies]") {
  const auto sum_of_ones = [](const char* spec, int steps) {
    const auto policy = Spec(spec).make({.budget = 1});
    const std::vector<std::int32_t> tokens = {0};
    const std::vector<float> attention = {1};
    std::vector<double> scores = {0};
    for (int t = 0; t < steps; ++t) {
      policy->update({.index = t, .tokens = tokens, .attention = attention}, scores);
    }
    return scores.front();
  };
  CHECK(sum_of_ones("h2o:precision=half", 2000) == 2000);
  CHECK(sum_of_ones("h2o:precision=half", 3000) == 2048);
  CHECK(sum_of_ones("h2o:precision=double", 3000) == 3000);
}

TEST_CASE("in half precision a large sum does not notice small attention", "[policies]") {
  // 1.0004 is nearer to 1 than to 1 + 2^-10, the next half: all three tokens tie, and 0 goes.
  const Attention attention = {{1.0}, {0.0004, 1.0}, {0.0, 0.0, 1.0}};
  CHECK(evicted_after("h2o:recent=0,precision=half", 2, attention) == Steps{2, 3, 3});
  CHECK(evicted_after("h2o:recent=0", 2, attention) == Steps{3, 2, 3});
}

TEST_CASE(
    "h2o asks for keys at slots, pruning and full attention only where its parameters need it",
    "[policies]") {
  const auto rules = [](const char* spec) { return Spec(spec).rules({.budget = 8}); };
  CHECK_FALSE(rules("h2o").slot_positions);
  CHECK_FALSE(rules("h2o").prunes);
  CHECK_FALSE(rules("h2o").sees_full_attention);
  CHECK(rules("h2o:positions=slot").slot_positions);
  CHECK(rules("h2o:preset=streaming").slot_positions);
  CHECK(rules("h2o:preset=lm-eval").prunes);
  CHECK(rules("h2o:preset=lm-eval").sees_full_attention);
}

}  // namespace kvsim::h2o_test
