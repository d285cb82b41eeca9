#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "sim/replay/replay_checks.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::threshold_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;

Steps left_after(const std::string& spec, const std::vector<std::vector<float>>& keys,
                 int budget = 1, int prompt = 0) {
  return evicted_after(Spec(spec), budget,
                       {.attention = any_attention(keys.size()), .keys = keys, .prompt = prompt});
}

const std::vector<std::vector<float>> kKeys = {{3, 4}, {0, 1}, {6, 8}, {0, 2}, {3, 4}, {0, 1}};

TEST_CASE("a token leaves once it is older than the window and below the threshold", "[policies]") {
  // Scores are minus the norms of the keys: -5, -1, -10, -2, -5, -1.
  CHECK(left_after("knorm+threshold:below=-4,window=1", kKeys) == Steps{1, 6, 3, 6, 5, 6});
  CHECK(left_after("knorm+threshold:below=-4,window=3", kKeys) == Steps{3, 6, 5, 6, 6, 6});
  CHECK(left_after("knorm+threshold:below=-5,window=1", kKeys) == Steps{6, 6, 3, 6, 6, 6});
}

TEST_CASE("under a threshold no budget holds", "[policies]") {
  for (const int budget : {1, 3, 100}) {
    CHECK(left_after("knorm+threshold:below=-5,window=1", kKeys, budget) ==
          Steps{6, 6, 3, 6, 6, 6});
  }
  CHECK(left_after("knorm+threshold:below=-11", kKeys) == Steps(6, 6));
  const Rules rules = Spec("h2o:recent=4+threshold:window=9").rules({.budget = 20});
  CHECK_FALSE(rules.bounded);
  CHECK(rules.prunes);
  CHECK(rules.protect_newest == 9);
}

TEST_CASE("under a threshold no interval holds, but a prompt can be cut once", "[policies]") {
  const Spec policy("h2o+threshold:below=0.1");
  CHECK_THROWS_WITH(check_protocol({.eviction_interval = 8}, policy, 9),
                    Catch::Contains("without a budget nothing says when"));
  CHECK_NOTHROW(
      check_protocol({.mode = Mode::prefill, .eviction_interval = kNeverEvict}, policy, 9));
}

TEST_CASE("policies that score only where the budget overflows score at each step", "[policies]") {
  Attention attention = any_attention(6);
  attention[4] = {0.5, 0, 0, 0, 0.5};
  attention[5] = {0.5, 0, 0, 0, 0.25, 0.25};
  // Of a window of one step the votes are its attention.
  CHECK(evicted_after("snapkv:window=1,kernel=1+threshold:below=0.1,window=1", 1, attention) ==
        Steps{6, 4, 4, 4, 6, 6});
}

TEST_CASE("threshold names what it cannot change", "[policies]") {
  CHECK_THROWS_WITH(Spec("fastgen+threshold"), Catch::Contains("it prunes by a rule of its own"));
  CHECK_THROWS_WITH(Spec("kcenter+threshold"), Catch::Contains("exceeds a budget"));
  CHECK_THROWS_WITH(Spec("obcache+threshold"), Catch::Contains("exceeds a budget"));
  CHECK_THROWS_WITH(Spec("expected-attention+threshold"), Catch::Contains("exceeds a budget"));
  CHECK_THROWS_WITH(Spec("h2o+critical+threshold"), Catch::Contains("no budget to be divided"));
  CHECK_THROWS_WITH(Spec("h2o+rest+threshold"), Catch::Contains("+rest"));
  CHECK_THROWS_WITH(Spec("h2o+shared:scores=rank+threshold"), Catch::Contains("rank"));
}

}  // namespace kvsim::threshold_test
