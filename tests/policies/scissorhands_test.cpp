#include <catch2/catch.hpp>

#include "tests/support/kept_tokens.h"

namespace kvsim::scissorhands_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;

// Scissorhands Algorithm 2 by hand: each step counts the tokens with less than 1 / (t + 1).
const Attention kAttention = {{1.0},
                              {0.6, 0.4},                 // below 1/2: 1
                              {0.6, 0.3, 0.1},            // below 1/3: 1, 2
                              {0.5, 0.1, 0.3, 0.1},       // below 1/4: 1, 3
                              {0.4, 0.1, 0.1, 0.2, 0.2},  // below 1/5: 1, 2
                              {0.6, 0.0, 0.0, 0.1, 0.1, 0.2}};

TEST_CASE("scissorhands drops the tokens that were least often pivotal, several at once",
          "[policies]") {
  // After step 4 the counters are 0, 4, 2, 1, 0; half of the budget of 4 goes: 1 and 2.
  CHECK(evicted_after("scissorhands:recent=1", 4, kAttention) == Steps{6, 4, 4, 6, 6, 6});
}

TEST_CASE("scissorhands with drop=0 drops one token at a time", "[policies]") {
  // Step 4 drops 1. Step 5 counts 2, 3 and 4 once more (below 1/6): 0, 3, 2, 1 and 5 is recent.
  CHECK(evicted_after("scissorhands:recent=1,drop=0", 4, kAttention) == Steps{6, 4, 5, 6, 6, 6});
}

TEST_CASE("scissorhands counts the last steps of its history only", "[policies]") {
  const Attention attention = {{1.0},
                               {0.9, 0.1},                  // below 1/2: 1
                               {0.9, 0.05, 0.05},           // below 1/3: 1, 2
                               {0.2, 0.2, 0.3, 0.3},        // below 1/4: 0, 1
                               {0.1, 0.3, 0.2, 0.2, 0.2}};  // below 1/5: 0
  // The last two steps count 0 twice and 1 once; all of them, 0 twice and 1 three times.
  CHECK(evicted_after("scissorhands:history=2,recent=1,drop=0", 4, attention)[0] == 4);
  CHECK(evicted_after("scissorhands:history=5,recent=1,drop=0", 4, attention)[1] == 4);
}

TEST_CASE("scissorhands never drops the recent tokens, however many go at once", "[policies]") {
  // drop=1.0 asks for 4 of the 5 tokens, but 3 are recent.
  CHECK(evicted_after("scissorhands:recent=3,drop=1", 4, kAttention) == Steps{4, 4, 6, 6, 6, 6});
}

TEST_CASE("rank=any drops what was never important in the history", "[policies]") {
  const Attention attention = {{1.0},                  // at least 1: 0
                               {0.2, 0.8},             // at least 1/2: 1
                               {0.1, 0.8, 0.1},        // at least 1/3: 1
                               {0.1, 0.6, 0.1, 0.2}};  // at least 1/4: 1
  // Token 0 was unimportant in three steps but not in its first, token 2 in both of its steps.
  CHECK(evicted_after("scissorhands:recent=1,drop=0", 3, attention) == Steps{3, 4, 4, 4});
  CHECK(evicted_after("scissorhands:recent=1,drop=0,rank=any", 3, attention) == Steps{4, 4, 3, 4});
  CHECK(evicted_after("scissorhands:history=4,recent=1,drop=0,rank=any", 3, attention) ==
        Steps{4, 4, 3, 4});
  // A history of three steps has forgotten the first one; 0 and 2 tie.
  CHECK(evicted_after("scissorhands:history=3,recent=1,drop=0,rank=any", 3, attention) ==
        Steps{3, 4, 4, 4});
}

/// Which of as many tokens as `attention` has were important at this one step.
std::vector<bool> important(const std::vector<float>& attention) {
  const Spec spec("scissorhands:history=1,important=percentile,rank=any");
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < attention.size(); ++i) tokens.push_back(static_cast<int>(i));
  std::vector<double> scores(attention.size(), 0);
  const int t = tokens.back();
  spec.make({.budget = 8})->update({.index = t, .tokens = tokens, .attention = attention}, scores);
  std::vector<bool> important;
  for (const double score : scores) important.push_back(score > 0);
  return important;
}

TEST_CASE("important=percentile asks for more than the 90th percentile", "[policies]") {
  using Important = std::vector<bool>;
  // Of two tokens it lies nine tenths of the way from the one to the other.
  CHECK(important({0.4F, 0.6F}) == Important{false, true});
  CHECK(important({0.6F, 0.4F}) == Important{true, false});
  // Of eleven it is the second largest, of twelve it is between the second and the third.
  CHECK(important({.01F, .02F, .03F, .04F, .05F, .3F, .06F, .07F, .08F, .2F, .09F}) ==
        Important{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0});
  CHECK(important({.01F, .02F, .03F, .04F, .05F, .3F, .06F, .07F, .08F, .2F, .09F, .01F}) ==
        Important{0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0});
  // Two that share the top of eleven are equal to it, one alone is equal to itself.
  CHECK(important({.1F, .1F, .1F, .1F, .1F, .2F, .1F, .1F, .1F, .2F, .1F}) == Important(11, false));
  CHECK(important({1}) == Important{false});
}

TEST_CASE("the percentile changes what scissorhands drops", "[policies]") {
  const Attention attention = {
      {1.0}, {0.2, 0.8}, {0.4, 0.3, 0.3}, {0.4, 0.25, 0.3, 0.05}, {0.3, 0.25, 0.25, 0.1, 0.1}};
  // Below an even share: 0 at step 1, 1 and 2 at step 2, 3 at steps 3 and 4.
  CHECK(evicted_after("scissorhands:recent=1,drop=0", 4, attention) == Steps{5, 5, 5, 4, 5});
  // Not above the percentile: 0 at steps 0 and 1, 1 and 2 at steps 2 to 4, 3 at steps 3 and 4.
  CHECK(evicted_after("scissorhands:recent=1,drop=0,important=percentile", 4, attention) ==
        Steps{5, 4, 5, 5, 5});
}

TEST_CASE("rank=share drops the token that was important in the smallest share of its steps",
          "[policies]") {
  const Attention attention = {{1.0},                       // at least 1: 0
                               {0.6, 0.4},                  // at least 1/2: 0
                               {0.1, 0.8, 0.1},             // at least 1/3: 1
                               {0.1, 0.3, 0.2, 0.4},        // at least 1/4: 1, 3
                               {0.1, 0.3, 0.1, 0.2, 0.3}};  // at least 1/5: 1, 3, 4
  // Token 0 was unimportant three times, in 3 of 5 steps, token 2 as often, in 3 of 3.
  CHECK(evicted_after("scissorhands:recent=1,drop=0", 4, attention)[0] == 4);
  CHECK(evicted_after("scissorhands:recent=1,drop=0,rank=share", 4, attention)[2] == 4);
  // Of the last two steps both were important in none.
  CHECK(evicted_after("scissorhands:history=2,recent=1,drop=0,rank=share", 4, attention)[0] == 4);
}

TEST_CASE("important=cache asks for an even share of the cache, not of the text", "[policies]") {
  const Attention attention = {{1.0},
                               {0.6, 0.4},
                               {0.5, 0.3, 0.2},        // token 1 goes after this step
                               {0.4, 0.0, 0.3, 0.3}};  // of three: only 0; of four: all
  CHECK(evicted_after("scissorhands:recent=1,drop=0,history=1", 2, attention) == Steps{3, 2, 4, 4});
  CHECK(evicted_after("scissorhands:recent=1,drop=0,history=1,important=cache", 2, attention) ==
        Steps{4, 2, 3, 4});
}

}  // namespace kvsim::scissorhands_test
