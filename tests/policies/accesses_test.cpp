#include <catch2/catch.hpp>

#include "tests/support/kept_tokens.h"

namespace kvsim::accesses_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;

// With three tokens attended, an access is more than 1/3; with full attention at step t, more than
// 1 / (t + 1).
const Attention kAttention = {{1.0},
                              {0.6, 0.4},
                              {0.5, 0.2, 0.3},
                              {0.5, 0.0, 0.3, 0.2},
                              {0.1, 0.0, 0.0, 0.5, 0.4},
                              {0.2, 0.0, 0.0, 0.4, 0.2, 0.2}};

TEST_CASE("lru evicts the token whose last access is longest ago", "[policies]") {
  // Step 2: last accesses 0 -> 2, 1 -> 1 (its arrival), 2 -> 2; 1 goes.
  // Step 3: 0 -> 3, 2 -> 2, 3 -> 3; 2 goes.
  // Step 4: 0 -> 3, 3 -> 4, 4 -> 4; 0 goes.
  // Step 5: 3 -> 5, 4 -> 4, 5 -> 5; 4 goes.
  CHECK(evicted_after("lru", 2, kAttention) == Steps{4, 2, 3, 6, 5, 6});
}

TEST_CASE("lfu evicts the token with the fewest accesses, arrival being one", "[policies]") {
  // Step 2: 0 has its arrival and steps 1 and 2, 1 and 2 their arrivals; 1, the lower, goes.
  // Step 3: 0 has 4, 2 and 3 have 1; 2 goes.
  // Step 4: 0 has 4, 3 has 2, 4 has 1; 4 goes.
  // Step 5: 0 has 4, 3 has 3, 5 has 1; 5 goes.
  CHECK(evicted_after("lfu", 2, kAttention) == Steps{6, 2, 3, 6, 4, 5});
}

TEST_CASE("an even share of the attention is no access", "[policies]") {
  // Step 2 gives everyone 1/3: the last accesses are the arrivals, and 0 goes.
  const float third = 1.0F / 3;
  CHECK(evicted_after("lru", 2, {{1.0}, {0.5, 0.5}, {third, third, third}}) == Steps{2, 3, 3});
}

TEST_CASE("lru and lfu with score=full go by the attention over the whole text", "[policies]") {
  // Of the whole text 0 has little and 1 much, whatever they have of the cache.
  const Attention full = {{1.0}, {0.3, 0.7}, {0.2, 0.6, 0.2}};
  const Attention cached(kAttention.begin(), kAttention.begin() + 3);
  CHECK(evicted_after("lru:score=full", 2, cached, full) == Steps{2, 3, 3});
  CHECK(evicted_after("lfu:score=full", 2, cached, full) == Steps{2, 3, 3});
}

}  // namespace kvsim::accesses_test
