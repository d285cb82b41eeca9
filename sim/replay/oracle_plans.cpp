#include "sim/replay/oracle_plans.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>

namespace kvsim {
namespace {

/// The configurations of one oracle.
struct Oracle {
  std::unique_ptr<Planner> planner;
  std::vector<std::size_t> members;  // configurations, one per budget
  bool is_shared = false;            // one plan for all units of a layer
};

bool plans_jointly(const Oracle& oracle) {
  return oracle.is_shared || oracle.planner->plans_jointly();
}

std::vector<Oracle> oracles_of(const std::vector<Configuration>& configurations) {
  std::map<std::string, Oracle> by_spec;
  for (std::size_t i = 0; i < configurations.size(); ++i) {
    const Spec& policy = configurations[i].policy;
    if (!policy.is_oracle()) continue;
    Oracle& oracle = by_spec[policy.text()];
    if (oracle.members.empty()) {
      oracle.planner = policy.policy().make_planner(policy.params());
      oracle.is_shared = policy.rules({.budget = configurations[i].budget}).joined.has_value();
    }
    oracle.members.push_back(i);
  }
  std::vector<Oracle> oracles;
  for (auto& [spec, oracle] : by_spec) oracles.push_back(std::move(oracle));
  return oracles;
}

/// The number of units, from `first` on, that are of the same layer.
std::size_t layer_size(std::span<const Unit> units, std::size_t first) {
  std::size_t end = first + 1;
  while (end < units.size() && units[end].name.layer == units[first].name.layer) ++end;
  return end - first;
}

}  // namespace

OraclePlans::OraclePlans(std::span<const Unit> units,
                         const std::vector<Configuration>& configurations,
                         const ReplayOptions& options, const Backend& backend)
    : plans_(configurations.size()) {
  const std::vector<Oracle> oracles = oracles_of(configurations);
  if (oracles.empty()) return;
  const auto plan = [&](const Oracle& oracle, std::size_t first, std::span<const Future> layer) {
    check_interrupted(options.interrupted);
    std::vector<std::vector<int>> budgets(layer.size());
    for (std::size_t unit = 0; unit < layer.size(); ++unit) {
      for (const std::size_t i : oracle.members) {
        const Configuration& planned = configurations[i];
        const int tokens = planned.policy.tokens_of(planned.budget_of(first + unit));
        budgets[unit].push_back(std::max(1, tokens));
      }
    }
    std::vector<std::vector<Plan>> plans;
    if (oracle.is_shared) {
      plans.assign(layer.size(), oracle.planner->plan_shared(layer, budgets.front()));
    } else {
      plans = oracle.planner->plan(layer, budgets);
    }
    for (std::vector<Plan>& of_unit : plans) {
      for (std::size_t m = 0; m < oracle.members.size(); ++m) {
        plans_[oracle.members[m]].push_back(std::move(of_unit[m]));
      }
    }
  };
  for (std::size_t first = 0; first < units.size(); first += layer_size(units, first)) {
    std::vector<Future> layer;
    for (const Unit& unit : units.subspan(first, layer_size(units, first))) {
      layer.emplace_back(unit, eviction_steps(unit, options.protocol), backend, options.interrupted,
                         options.planning_threads);
    }
    // One unit's attention is in memory at a time, unless an oracle needs that of several.
    for (std::size_t unit = 0; unit < layer.size(); ++unit) {
      for (const Oracle& oracle : oracles) {
        if (!plans_jointly(oracle)) plan(oracle, first + unit, {&layer[unit], 1});
      }
      layer[unit].forget_attention();
    }
    for (const Oracle& oracle : oracles) {
      if (plans_jointly(oracle)) plan(oracle, first, layer);
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
  outcome.proof = plan.proof;
  if (trajectories) outcome.trajectory.slot_price = plan.slot_price;
}

}  // namespace kvsim
