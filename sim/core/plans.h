#pragma once

#include "sim/core/planner.h"
#include "sim/core/replay.h"

namespace kvsim {

/// The plans that the oracles among the configurations have for their units, made once per unit and
/// oracle for all its budgets.
class Plans {
 public:
  Plans(std::span<const Unit> units, const std::vector<Configuration>& configurations,
        const ReplayOptions& options, const Backend& backend);

  /// `configuration` with its schedules, if it is an oracle's.
  Configuration with_schedules(std::size_t index, const Configuration& configuration) const;

  /// Adds what a plan knows beside its schedule to the outcome of configuration `index` on a unit.
  void annotate(std::size_t index, std::size_t unit, bool trajectories, Outcome& outcome) const;

 private:
  std::vector<std::vector<Plan>> plans_;  // per configuration and unit; empty if it is no oracle
};

}  // namespace kvsim
