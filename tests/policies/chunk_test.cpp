#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::chunk_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;

// Only the last step evicts: its attention is the score.
const std::vector<float> kLast = {0.5, 0.1, 0.3, 0.2, 0.9, 0.0, 0.4, 0.05};  // means .3, .25, .45,
                                                                             // .225

Steps cut(const std::string& spec, int budget) {
  Attention attention = any_attention(kLast.size());
  attention.back() = kLast;
  return evicted_after(spec, budget, attention, {}, static_cast<int>(kLast.size()));
}

TEST_CASE("chunk keeps whole chunks, by the mean of their scores", "[policies]") {
  CHECK(cut("tova+chunk:length=2", 6) == Steps{8, 8, 8, 8, 8, 8, 7, 7});
  CHECK(cut("tova+chunk:length=2", 4) == Steps{8, 8, 7, 7, 8, 8, 7, 7});
  CHECK(cut("tova+chunk:length=2", 2) == Steps{7, 7, 7, 7, 8, 8, 7, 7});
  CHECK(cut("tova", 2) == Steps{8, 7, 7, 7, 8, 7, 7, 7});
}

TEST_CASE("of a chunk that does not fit its earliest tokens leave", "[policies]") {
  CHECK(cut("tova+chunk:length=2", 5) == Steps{8, 8, 7, 8, 8, 8, 7, 7});
}

TEST_CASE("the last chunk has the mean of the tokens that it has", "[policies]") {
  // Chunks of three: means 0.3, 0.367, 0.225.
  CHECK(cut("tova+chunk:length=3", 6) == Steps{8, 8, 8, 8, 8, 8, 7, 7});
  CHECK(cut("tova+chunk:length=3", 3) == Steps{7, 7, 7, 8, 8, 8, 7, 7});
}

TEST_CASE("tokens that stay are no part of a chunk's mean", "[policies]") {
  // Without token 7 the last chunk has 0.4, and the newest token stays.
  CHECK(cut("tova+protect:first=0,last=1+chunk:length=2", 4) == Steps{7, 7, 7, 7, 8, 8, 8, 8});
}

TEST_CASE("a chunk of one token changes nothing", "[policies]") {
  const Attention attention = any_attention(20);
  for (const char* policy : {"h2o", "lru", "snapkv:window=3", "random"}) {
    CHECK(evicted_after(policy, 7, attention) ==
          evicted_after(std::string(policy) + "+chunk:length=1", 7, attention));
  }
}

TEST_CASE("chunk names what it cannot change", "[policies]") {
  CHECK_THROWS_WITH(Spec("fastgen+chunk"), Catch::Contains("it prunes tokens one by one"));
  CHECK_THROWS_WITH(Spec("topk+chunk"), Catch::Contains("it selects"));
  CHECK_THROWS_WITH(Spec("h2o+chunk+threshold"), Catch::Contains("it prunes tokens one by one"));
}

}  // namespace kvsim::chunk_test
