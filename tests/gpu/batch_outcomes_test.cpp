#include <catch2/catch.hpp>

#include "gpu/batch_replay.h"
#include "tests/gpu/host_device.h"
#include "tests/support/units.h"

namespace kvsim::gpu_test::batch_outcomes_test {

TEST_CASE("device: trajectories come through page-locked memory") {
  const Unit unit = test_support::random_unit({.tokens = 90, .group = 2}, 1);
  const std::vector<Configuration> configurations{{Spec("h2o"), 10}, {Spec("lru"), 30}};
  const UnitReplays replays{&unit, configurations};
  HostDevice without;
  HostDevice with;
  gpu::replay_on(without, {&replays, 1}, {});
  gpu::replay_on(with, {&replays, 1}, {.trajectories = true});
  CHECK(without.pageable_bytes() > 0);
  CHECK(with.pageable_bytes() == without.pageable_bytes());
}

}  // namespace kvsim::gpu_test::batch_outcomes_test
