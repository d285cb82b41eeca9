#include "sim/replay/planner.h"

namespace kvsim {

std::vector<std::vector<Plan>> HeadPlanner::plan(std::span<const Future> layer,
                                                 std::span<const std::vector<int>> budgets) const {
  std::vector<std::vector<Plan>> plans;
  for (std::size_t unit = 0; unit < layer.size(); ++unit) {
    plans.push_back(plan_head(layer[unit], budgets[unit]));
  }
  return plans;
}

}  // namespace kvsim
