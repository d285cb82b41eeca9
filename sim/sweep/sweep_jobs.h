#pragma once

#include <optional>
#include <vector>

#include "sim/sweep/memory.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// A unit of a job. A policy for a layer or the model sees all recorded heads; only the selected
/// ones are in the plan.
struct JobUnit {
  UnitName name;
  std::optional<std::size_t> planned = {};  ///< index into the plan's units; none: not selected
};

/// Units that one thread reads and replays together: one head, or for policies that decide for them
/// together all recorded heads of a layer or of a sequence.
struct SweepJob {
  std::size_t trace = 0;       ///< index into the plan's traces
  std::vector<JobUnit> units;  ///< ordered by layer
  std::vector<PlannedReplay> replays;
  bool needs_profiles = false;  ///< its budgets depend on measurements of the sequence
  bool whole_layers = false;    ///< has all heads of its layers, and measures them as a whole
};

/// The remaining replays of the plan: jobs of few units first, otherwise in the plan's order.
std::vector<SweepJob> jobs_of(const SweepPlan& plan);

/// Whether the policy is planned by an auction per budget: PolicyInfo::auction_from.
bool plans_by_auction(const Spec& policy, std::size_t num_tokens);

/// The sizes of one unit's replays in the job, on the CPU.
ReplayShape replay_shape(const SweepPlan& plan, const SweepJob& job);

/// All units of a sequence in its trace, ordered by layer.
std::vector<UnitName> recorded_units(const Trace& trace, const std::string& sequence);

}  // namespace kvsim
