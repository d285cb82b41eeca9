#include <catch2/catch.hpp>

#include "tests/support/kept_tokens.h"

namespace kvsim::tova_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;

TEST_CASE("tova evicts what the current step attends to least", "[policies]") {
  const Attention attention = {{1.0},
                               {0.5, 0.5},
                               {0.2, 0.5, 0.3},             // 0 goes
                               {0.0, 0.6, 0.3, 0.1},        // 3, the new token, goes
                               {0.0, 0.1, 0.4, 0.0, 0.5}};  // 1 goes, whatever it had before
  CHECK(evicted_after("tova", 2, attention) == Steps{2, 4, 5, 3, 5});
}

TEST_CASE("tova lets the first of equally attended tokens go", "[policies]") {
  const Attention attention = {{1.0},
                               {0.5, 0.5},
                               {0.25, 0.25, 0.5},           // 0 and 1 tie
                               {0.0, 0.5, 0.25, 0.25},      // 2 and 3 tie
                               {0.0, 0.5, 0.0, 0.5, 0.0}};  // 4 alone is lowest
  CHECK(evicted_after("tova", 2, attention) == Steps{2, 5, 3, 5, 4});
}

TEST_CASE("tova evicts the prompt's excess by its last step", "[policies]") {
  const Attention attention = {{1.0},
                               {0.1, 0.9},
                               {0.1, 0.8, 0.1},
                               {0.4, 0.1, 0.2, 0.3},        // 1 and 2 go
                               {0.3, 0.0, 0.0, 0.2, 0.5}};  // 3 goes
  CHECK(evicted_after("tova", 2, attention, {}, 4) == Steps{5, 3, 3, 4, 5});
}

TEST_CASE("tova decides for a KV head or, as in the paper, for a layer", "[policies]") {
  CHECK(Spec("tova").rules({.budget = 2}).scope == Scope::head);
  CHECK(Spec("tova:scope=layer").rules({.budget = 2}).scope == Scope::layer);
  CHECK(Spec("tova:preset=paper").text() == "tova:scope=layer,score=cached");
}

}  // namespace kvsim::tova_test
