#pragma once

#include <span>
#include <vector>

#include "gpu/batch_memory.h"
#include "sim/sweep/device_replays.h"

namespace kvsim::gpu {

/// Downloads what the replays of a batch come to, after total_replay(), and the trajectories only
/// if they are asked for. Outcomes are per unit and configuration, in the order of `units`.
std::vector<std::vector<Outcome>> outcomes_of(BatchMemory& memory,
                                              std::span<const UnitReplays> units,
                                              const ReplayOptions& options);

}  // namespace kvsim::gpu
