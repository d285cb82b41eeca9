#include "oracle/side_by_side.h"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

#include "oracle/assignment/assignment_plans.h"
#include "oracle/auction/auction_plan.h"
#include "policies/registry/registry.h"
#include "policies/registry/spec.h"
#include "sim/base/interrupt.h"
#include "sim/replay/planner.h"
#include "tests/support/units.h"

namespace kvsim::side_by_side_test {

TEST_CASE("side by side, all work is done once, and the first failure is thrown", "[auction]") {
  const int threads = GENERATE(1, 2, 5);
  std::vector<int> done(40, 0);
  side_by_side(done.size(), threads, nullptr, [&](std::size_t i) { ++done[i]; });
  CHECK(done == std::vector<int>(40, 1));
  CHECK_NOTHROW(side_by_side(0, threads, nullptr, [](std::size_t) { throw std::logic_error(""); }));
  CHECK_THROWS_WITH(side_by_side(40, threads, nullptr,
                                 [](std::size_t i) {
                                   if (i == 3) throw std::runtime_error("3");
                                 }),
                    "3");
}

TEST_CASE("side by side, every thread asks for interrupts", "[auction]") {
  const std::atomic<bool> interrupted = true;
  CHECK_THROWS_AS(side_by_side(4, 4, &interrupted, [](std::size_t) { poll_interrupt(); }),
                  Interrupted);
}

TEST_CASE("a long text's plans do not depend on threads or on other budgets", "[auction]") {
  const Unit unit = test_support::random_unit({.tokens = 1600, .head_dim = 4, .value_dim = 4}, 7);
  const auto backend = make_cpu_backend();
  const PolicyInfo& optimal = find_policy("optimal");
  const auto planner = optimal.make_planner(Params(optimal.params));
  const auto plans = [&](int threads, const std::vector<int>& budgets) {
    const Future future(unit, eviction_steps(unit, {}), *backend, nullptr, threads);
    return planner->plan({&future, 1}, {&budgets, 1}).front();
  };
  const std::vector<Plan> alone = plans(1, {160});
  const std::vector<Plan> together = plans(3, {20, 160, 800});
  CHECK(together[1].schedule == alone[0].schedule);
  CHECK(together[1].slot_price == alone[0].slot_price);
  for (const Plan& plan : together) {
    CHECK(plan.proof->loss_bound <= plan.proof->loss);
    CHECK(plan.proof->loss_bound >= plan.proof->loss * (1 - 2e-7));
    CHECK(plan.proof->recall_bound.value() == Approx(1 - plan.proof->loss_bound).epsilon(1e-6));
  }
}

TEST_CASE(
    "from 511 to 512 tokens losses stay those of the pass, with threads and without an auction",
    "[auction]") {
  const int tokens = GENERATE(511, 512);
  const int interval = GENERATE(1, 16);
  const Unit unit = test_support::uniform_unit({.tokens = tokens});
  const auto backend = make_cpu_backend();
  const EvictionSteps steps = eviction_steps(unit, {.eviction_interval = interval});
  const Future future(unit, steps, *backend, nullptr, 4);
  const auto costs = std::make_shared<const RemainingSums>(future.attention());
  const std::vector<int> budgets = {4, 51, 204};
  std::vector<CacheSize> caches;
  for (const int budget : budgets) caches.push_back({.budget = budget, .recent = 3});
  const auto expected = assignment_plans(steps, costs, caches, true);
  CHECK(auction_plan(Bidders(*costs, steps, 4, 3), steps).has_value() == (interval == 1));
  CHECK(auction_plan(Bidders(*costs, steps, 51, 3), steps));
  const Spec optimal("optimal:recent=3");
  const auto planner = optimal.policy().make_planner(optimal.params());
  const std::vector<Plan> plans = planner->plan({&future, 1}, {&budgets, 1}).front();
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    CAPTURE(tokens, interval, budgets[i]);
    CHECK(plans[i].proof->loss == Approx(expected[i].loss / tokens).epsilon(1e-12));
  }
}

}  // namespace kvsim::side_by_side_test
