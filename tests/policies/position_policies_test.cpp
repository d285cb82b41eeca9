#include <catch2/catch.hpp>

#include "tests/support/kept_tokens.h"

namespace kvsim::position_policies_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;

TEST_CASE("full keeps everything whatever the budget", "[policies]") {
  CHECK(evicted_after("full", 1, any_attention(5)) == Steps{5, 5, 5, 5, 5});
}

TEST_CASE("window keeps the most recent tokens", "[policies]") {
  CHECK(evicted_after("window", 1, any_attention(5)) == Steps{1, 2, 3, 4, 5});
  CHECK(evicted_after("window", 2, any_attention(5)) == Steps{2, 3, 4, 5, 5});
  CHECK(evicted_after("window", 4, any_attention(5)) == Steps{4, 5, 5, 5, 5});
  CHECK(evicted_after("window", 5, any_attention(5)) == Steps{5, 5, 5, 5, 5});
}

TEST_CASE("window keeps the end of the prompt", "[policies]") {
  CHECK(evicted_after("window", 2, any_attention(6), {}, 4) == Steps{3, 3, 4, 5, 6, 6});
}

TEST_CASE("sink keeps the first tokens and the most recent rest", "[policies]") {
  CHECK(evicted_after("sink:sinks=1", 3, any_attention(6)) == Steps{6, 3, 4, 5, 6, 6});
  CHECK(evicted_after("sink:sinks=2", 3, any_attention(6)) == Steps{6, 6, 3, 4, 5, 6});
  CHECK(evicted_after("sink", 5, any_attention(7)) == Steps{7, 7, 7, 7, 5, 6, 7});
}

TEST_CASE("sink without sinks is window", "[policies]") {
  CHECK(evicted_after("sink:sinks=0", 2, any_attention(5)) ==
        evicted_after("window", 2, any_attention(5)));
}

TEST_CASE("sinks beyond the budget leave no room for any other token", "[policies]") {
  CHECK(evicted_after("sink:sinks=2", 2, any_attention(5)) == Steps{5, 5, 2, 3, 4});
  CHECK(evicted_after("sink", 2, any_attention(5)) == Steps{5, 5, 2, 3, 4});
}

TEST_CASE("sink keeps both ends of the prompt", "[policies]") {
  CHECK(evicted_after("sink:sinks=1", 3, any_attention(6), {}, 5) == Steps{6, 4, 4, 5, 6, 6});
}

TEST_CASE("sink keeps the same tokens at slots, and asks for keys to be rotated", "[policies]") {
  CHECK(evicted_after("sink:sinks=2,positions=slot", 3, any_attention(6)) ==
        evicted_after("sink:sinks=2", 3, any_attention(6)));
  CHECK_FALSE(Spec("sink").rules({.budget = 3}).slot_positions);
  CHECK(Spec("sink:positions=slot").rules({.budget = 3}).slot_positions);
  CHECK(Spec("sink:preset=streaming-llm").text() == "sink:sinks=4,positions=slot");
}

}  // namespace kvsim::position_policies_test
