#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// Leaves in the plan what `shard` has to do: whole jobs (jobs_of()), partitioned by their
/// estimated cost. Sets SweepPlan::study and the request's shard. Call it while all replays of the
/// plan remain.
void keep_shard(SweepPlan& plan, const Shard& shard);

/// What verbs that look at all of a unit deal out as a whole.
enum class Grain { head, layer, sequence };

/// What such a verb does with the units of a plan.
struct UnitWork {
  std::string what;           ///< the verb, and those of its options that decide what it does
  Grain grain = Grain::head;  ///< units that stay together
  std::function<std::int64_t(const PlannedUnit&)> cost;  ///< estimated, in nanoseconds
};

/// The same by whole units with all their replays.
void keep_shard_of_units(SweepPlan& plan, const Shard& shard, const UnitWork& work);

/// "shard 3/16: 40 of 640 replays, about 6.3% of the work", or with `what` = "unit" the units; what
/// it means if there are none. Empty without shards.
std::string note_of_shard(const SweepPlan& plan, std::string_view what);

/// The same, but empty too if there is something to do.
std::string note_of_empty_shard(const SweepPlan& plan);

}  // namespace kvsim
