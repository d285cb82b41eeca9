#pragma once

#include <optional>
#include <vector>

#include "sim/core/memory.h"
#include "sim/core/sweep.h"

namespace kvsim {

/// Units that are read and replayed together, by one thread: a single one, or all recorded heads of
/// a layer or of a sequence for policies that decide for them together.
struct SweepJob {
  std::size_t trace = 0;                          ///< index into the plan's traces
  std::vector<UnitName> units;                    ///< ordered by layer
  std::vector<std::optional<std::size_t>> plans;  ///< per unit: index into the plan's units, if
                                                  ///< its rows are wanted
  std::vector<PlannedReplay> replays;
  bool is_measured = false;  ///< its budgets follow from measurements of the whole sequence
};

/// What remains of the plan: jobs of few units first, else in the plan's order.
std::vector<SweepJob> jobs_of(const SweepPlan& plan);

/// The size of each of the job's units under replay.
ReplayShape replay_shape(const SweepPlan& plan, const SweepJob& job);

/// The units of a sequence that its trace holds.
std::vector<UnitName> recorded_units(const Trace& trace, const std::string& sequence);

}  // namespace kvsim
