#include <catch2/catch.hpp>

#include "gpu/batch_replay.h"
#include "policies/registry/spec.h"

namespace kvsim::gpu_test::can_replay_test {

TEST_CASE("device: score-based policies run there, at any of their parameters that rules know") {
  for (const std::string spec :
       {"window", "sink", "random", "h2o", "h2o:recent=0.1,score=full", "h2o:score=mean",
        "h2o:keep=light", "tova", "lru", "lfu", "scissorhands", "knorm", "keydiff", "snapkv",
        "strided", "fixed", "topk", "h2o+protect:first=4"}) {
    CAPTURE(spec);
    CHECK(gpu::can_replay(Spec(spec).rules({.budget = 8}), {}));
  }
  for (const std::string spec :
       {"h2o:overlap=yes", "scissorhands:rank=any", "strided:h2=0.5", "tova:scope=layer",
        "topk:h2=0.5", "h2o+quant:bits=4", "full", "spatten"}) {
    CAPTURE(spec);
    CHECK_FALSE(gpu::can_replay(Spec(spec).rules({.budget = 8}), {}));
  }
}

TEST_CASE("device: caches of pages, heads that share and samples of steps run on the CPU") {
  const Rules h2o = Spec("h2o").rules({.budget = 32});
  CHECK(gpu::can_replay(h2o, {.eviction_interval = 4}));
  CHECK_FALSE(gpu::can_replay(h2o, {.paging = {.size = 16}}));
  CHECK_FALSE(gpu::can_replay(h2o, {.reference = Reference::none}));
  CHECK_FALSE(gpu::can_replay(Spec("h2o+shared").rules({.budget = 32}), {}));
}

TEST_CASE("device: as many units at once as keep it busy and have room") {
  const ReplayShape shape{.num_tokens = 1000, .head_dim = 64, .value_dim = 64};
  const std::vector<Rules> rules(40, Spec("h2o").rules({.budget = 100}));
  CHECK(gpu::units_at_once(shape, rules, 0) == 1);
  const std::size_t busy = gpu::units_at_once(shape, rules, std::size_t{1} << 40);
  CHECK(busy > 20);
  const std::size_t fewer = gpu::units_at_once(shape, rules, std::size_t{1} << 28);
  CHECK(fewer > 1);
  CHECK(fewer < busy);
  const std::vector<Rules> remembering(40, Spec("scissorhands").rules({.budget = 100}));
  CHECK(gpu::units_at_once(shape, remembering, std::size_t{1} << 28) < fewer);
}

}  // namespace kvsim::gpu_test::can_replay_test
