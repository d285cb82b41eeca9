#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// Leaves in the plan what `shard` has to do: whole jobs (jobs_of()), dealt out by their estimated
/// cost. Sets SweepPlan::study and the request's shard. Call it while all replays of the plan
/// remain.
void keep_shard(SweepPlan& plan, const Shard& shard);

/// What verbs that look at all of a unit deal out as a whole.
enum class Grain { head, layer, sequence };

/// The same by whole units with all their replays, those together that share a head, a layer or a
/// sequence. `cost` estimates a unit's, in nanoseconds.
void keep_shard_of_units(SweepPlan& plan, const Shard& shard, Grain grain,
                         const std::function<std::int64_t(const PlannedUnit&)>& cost);

}  // namespace kvsim
