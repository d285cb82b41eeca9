#include "sim/sweep/cut_amounts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/replay/estimator_steps.h"

namespace kvsim {
namespace {

constexpr std::size_t kShownBudgets = 3;

std::string protection_cut(const Rules& rules, std::int64_t budget) {
  const std::int64_t asked = std::int64_t{rules.protect_first} + rules.protect_newest;
  if (!rules.bounded || asked <= budget) return "";
  return fmt::format("{} of {} protected tokens", budget, asked);
}

// Of an oracle, whose tokens are planned with its parameters.
std::string recent_cut(const Spec& oracle, int budget) {
  for (const Param& param : oracle.policy().params) {
    if (param.name != "recent" || param.type != Param::Type::amount) continue;
    const int asked = oracle.params().amount(param.name, budget);
    if (asked > budget) return fmt::format("{} of {} recent tokens", budget, asked);
  }
  return "";
}

// The amounts among the parameters that are not what the spec says.
std::vector<std::string> parameter_cuts(const Spec& estimator, int budget) {
  const int vectors = divide_budget(estimator_rules(estimator, budget), budget).vectors;
  const Amounts used = check_estimator(estimator, budget);
  std::vector<std::string> cuts;
  for (const Param& param : estimator.policy().params) {
    const auto amount = used.find(param.name);
    if (amount == used.end()) continue;
    const int asked = param.type == Param::Type::amount
                          ? estimator.params().amount(param.name, vectors)
                          : estimator.params().integer(param.name);
    if (amount->second == asked) continue;
    cuts.push_back(fmt::format("{}={} of {}", param.name, amount->second, asked));
  }
  return cuts;
}

std::string cut_of(const Spec& policy, int budget) {
  std::vector<std::string> cuts;
  std::string protection;
  if (policy.is_estimator()) {
    cuts = parameter_cuts(policy, budget);
    protection = protection_cut(estimator_rules(policy, budget), budget / 2);
  } else {
    protection = protection_cut(policy.rules({.budget = budget}), policy.tokens_of(budget));
  }
  if (!protection.empty()) cuts.push_back(protection);
  const std::string recent = policy.is_oracle() ? recent_cut(policy, policy.tokens_of(budget)) : "";
  if (!recent.empty()) cuts.push_back(recent);
  return fmt::format("{}", fmt::join(cuts, ", "));
}

}  // namespace

std::vector<std::string> cut_amounts(const SweepPlan& plan) {
  std::map<std::size_t, std::set<int>> budgets;  // per policy
  for (const PlannedUnit& unit : plan.units) {
    for (const PlannedReplay& replay : unit.remaining) {
      budgets[replay.policy].insert(replay.budget);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [policy, of_policy] : budgets) {
    const Spec& spec = plan.request.policies[policy];
    std::vector<std::string> cuts;
    for (const int budget : of_policy) {
      const std::string cut = cut_of(spec, budget);
      if (!cut.empty()) cuts.push_back(fmt::format("{} at {}", cut, budget));
    }
    if (cuts.empty()) continue;
    const std::size_t hidden = cuts.size() - std::min(cuts.size(), kShownBudgets);
    cuts.resize(cuts.size() - hidden);
    const std::string rest = hidden == 0 ? "" : fmt::format("; and at {} more budgets", hidden);
    lines.push_back(fmt::format("too small a budget for {}: it has room for {}{}", spec.text(),
                                fmt::join(cuts, "; "), rest));
  }
  return lines;
}

}  // namespace kvsim
