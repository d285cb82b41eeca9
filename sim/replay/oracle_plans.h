#pragma once

#include "sim/replay/planner.h"
#include "sim/replay/replay.h"

namespace kvsim {

/// The plans of all configurations that are oracles, for every unit. Plans once per layer and
/// oracle, for all its units and budgets.
class OraclePlans {
 public:
  /// Units of a layer stand together, ordered by KV head. Throws Interrupted.
  OraclePlans(std::span<const Unit> units, const std::vector<Configuration>& configurations,
              const ReplayOptions& options, const Backend& backend);

  /// `configuration` with its schedules, if it is an oracle's.
  Configuration with_schedules(std::size_t index, const Configuration& configuration) const;

  /// Adds the plan's proof, and to trajectories its slot prices, to the outcome of
  /// configuration `index` on a unit; nothing if it is no oracle.
  void annotate(std::size_t index, std::size_t unit, bool trajectories, Outcome& outcome) const;

 private:
  std::vector<std::vector<Plan>> plans_;  // per configuration and unit; empty: no oracle
};

}  // namespace kvsim
