#include "sim/replay/planner.h"

#include <stdexcept>

#include "sim/protocol/budget.h"

namespace kvsim {

std::vector<Plan> Planner::plan_every_budget(const Future& head) const {
  const std::vector<int> budgets = every_budget(head.protocol(), head.num_tokens());
  return plan({&head, 1}, {&budgets, 1}).front();
}

std::vector<Plan> Planner::plan_shared(std::span<const Future>, std::span<const int>) const {
  throw std::logic_error("this oracle plans no cache that several heads share");
}

std::vector<std::vector<Plan>> HeadPlanner::plan(std::span<const Future> layer,
                                                 std::span<const std::vector<int>> budgets) const {
  std::vector<std::vector<Plan>> plans;
  for (std::size_t unit = 0; unit < layer.size(); ++unit) {
    plans.push_back(plan_head(layer[unit], budgets[unit]));
  }
  return plans;
}

}  // namespace kvsim
