// Ctrl-C ends what takes long: the flag is set once the work of others is done, so that only the
// loops of the planner itself can see it.

#include <catch2/catch.hpp>

#include "policies/registry/registry.h"
#include "sim/replay/planner.h"
#include "tests/support/units.h"

namespace kvsim::interrupt_test {

TEST_CASE("every oracle asks for interrupts while it plans", "[interrupt]") {
  const Unit unit = test_support::random_unit({.tokens = 96}, 1);
  const auto backend = make_cpu_backend();
  std::atomic<bool> interrupted = false;
  const InterruptScope scope(&interrupted);
  int oracles = 0;
  for (const PolicyInfo& policy : policies()) {
    if (policy.make_planner == nullptr) continue;
    ++oracles;
    interrupted = false;
    const Future future(unit, eviction_steps(unit, {}), *backend, &interrupted);
    future.attention();
    const auto planner = policy.make_planner(Params(policy.params));
    const std::vector<int> budgets{8};
    INFO(policy.name);
    CHECK_NOTHROW(planner->plan({&future, 1}, {&budgets, 1}));
    interrupted = true;
    CHECK_THROWS_AS(planner->plan({&future, 1}, {&budgets, 1}), Interrupted);
  }
  CHECK(oracles >= 7);
}

}  // namespace kvsim::interrupt_test
