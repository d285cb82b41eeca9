#include <catch2/catch.hpp>

#include "tests/policies/kept_tokens.h"

namespace kvsim {
namespace {

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

}  // namespace
}  // namespace kvsim
