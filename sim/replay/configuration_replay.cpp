#include "sim/replay/configuration_replay.h"

#include "sim/replay/estimator_replay.h"
#include "sim/replay/policy_replay.h"
#include "sim/replay/score_replay.h"

namespace kvsim {
namespace {

using Units = std::span<const std::unique_ptr<ReplayedUnit>>;

// The number of units, from `begin` on, that one policy decides for together.
std::size_t count_deciding_together(std::size_t begin, Units units, Scope scope) {
  if (scope == Scope::model) return units.size() - begin;
  std::size_t end = begin + 1;
  if (scope == Scope::layer) {
    const int layer = units[begin]->unit().name.layer;
    while (end < units.size() && units[end]->unit().name.layer == layer) ++end;
  }
  return end - begin;
}

}  // namespace

std::vector<std::unique_ptr<ConfigurationReplay>> replays_of(const Configuration& configuration,
                                                             Units units,
                                                             const ReplayOptions& options) {
  const Rules rules = configuration.policy.rules({.budget = configuration.budget});
  const Scope scope = rules.scope;
  std::vector<std::unique_ptr<ConfigurationReplay>> replays;
  for (std::size_t begin = 0; begin < units.size();) {
    const std::size_t count = count_deciding_together(begin, units, scope);
    const Configuration part = configuration.part(begin, count);
    const Units shared = units.subspan(begin, count);
    if (configuration.policy.is_estimator()) {
      replays.push_back(std::make_unique<EstimatorReplay>(part, *shared.front(), options));
    } else if (units.front()->protocol().has_reference() && ScoreReplay::can_replay(rules)) {
      replays.push_back(std::make_unique<ScoreReplay>(part, *shared.front(), options));
    } else {
      replays.push_back(std::make_unique<PolicyReplay>(part, shared, options));
    }
    begin += count;
  }
  return replays;
}

}  // namespace kvsim
