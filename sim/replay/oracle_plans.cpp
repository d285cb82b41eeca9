#include "sim/replay/oracle_plans.h"

#include <map>
#include <memory>

namespace kvsim {

OraclePlans::OraclePlans(std::span<const Unit> units,
                         const std::vector<Configuration>& configurations,
                         const ReplayOptions& options, const Backend& backend)
    : plans_(configurations.size()) {
  std::map<std::string, std::vector<std::size_t>> by_oracle;
  for (std::size_t i = 0; i < configurations.size(); ++i) {
    const Spec& policy = configurations[i].policy;
    if (policy.is_oracle()) by_oracle[policy.text()].push_back(i);
  }
  if (by_oracle.empty()) return;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    const FutureAttention attention(units[unit], options.mode, backend, options.eviction_interval);
    for (const auto& [spec, members] : by_oracle) {
      check_interrupted(options.interrupted);
      std::vector<int> budgets;
      for (const std::size_t i : members) budgets.push_back(configurations[i].budget_of(unit));
      const Spec& oracle = configurations[members.front()].policy;
      std::vector<Plan> plans =
          oracle.policy().make_planner(oracle.params())->plan(attention, budgets);
      for (std::size_t m = 0; m < members.size(); ++m) {
        plans_[members[m]].push_back(std::move(plans[m]));
      }
    }
  }
}

Configuration OraclePlans::with_schedules(std::size_t index,
                                          const Configuration& configuration) const {
  Configuration planned = configuration;
  for (const Plan& plan : plans_[index]) planned.schedules.push_back(plan.schedule);
  return planned;
}

void OraclePlans::annotate(std::size_t index, std::size_t unit, bool trajectories,
                           Outcome& outcome) const {
  if (plans_[index].empty()) return;
  const Plan& plan = plans_[index][unit];
  outcome.recall_bound = plan.recall_bound;
  if (trajectories) outcome.trajectory.slot_price = plan.slot_price;
}

}  // namespace kvsim
