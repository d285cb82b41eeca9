#include "sim/core/configuration_replay.h"

#include "sim/core/estimator_replay.h"
#include "sim/core/policy_replay.h"
#include "sim/core/score_replay.h"

namespace kvsim {
namespace {

using Units = std::span<const std::unique_ptr<ReplayedUnit>>;

// How many units from `begin` on one policy decides for.
std::size_t shared_from(std::size_t begin, Units units, Scope scope) {
  if (scope == Scope::model) return units.size() - begin;
  std::size_t end = begin + 1;
  if (scope == Scope::layer) {
    const int layer = units[begin]->unit().name.layer;
    while (end < units.size() && units[end]->unit().name.layer == layer) ++end;
  }
  return end - begin;
}

template <class T>
std::vector<T> part_of(const std::vector<T>& all, std::size_t begin, std::size_t count) {
  if (all.empty()) return {};
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

std::vector<std::unique_ptr<ConfigurationReplay>> replays_of(const Configuration& configuration,
                                                             Units units,
                                                             const ReplayOptions& options) {
  const Rules rules = configuration.policy.rules({.budget = configuration.budget});
  const Scope scope = rules.scope;
  std::vector<std::unique_ptr<ConfigurationReplay>> replays;
  for (std::size_t begin = 0; begin < units.size();) {
    const std::size_t count = shared_from(begin, units, scope);
    Configuration part = configuration;
    part.budgets = part_of(configuration.budgets, begin, count);
    part.schedules = part_of(configuration.schedules, begin, count);
    if (scope != Scope::model) part.budget = part.budget_of(0);
    const Units shared = units.subspan(begin, count);
    if (configuration.policy.is_estimator()) {
      replays.push_back(std::make_unique<EstimatorReplay>(part, *shared.front(), options));
    } else if (units.front()->has_reference() && ScoreReplay::can_replay(rules)) {
      replays.push_back(std::make_unique<ScoreReplay>(part, *shared.front(), options));
    } else {
      replays.push_back(std::make_unique<PolicyReplay>(part, shared, options));
    }
    begin += count;
  }
  return replays;
}

}  // namespace kvsim
