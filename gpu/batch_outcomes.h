#pragma once

#include <span>
#include <vector>

#include "gpu/batch_memory.h"
#include "sim/core/device_replays.h"

namespace kvsim::gpu {

/// Fetches what a batch has measured over a whole text and summarises it as the CPU does.
std::vector<std::vector<Outcome>> outcomes_of(BatchMemory& memory,
                                              std::span<const UnitReplays> units,
                                              const ReplayOptions& options);

}  // namespace kvsim::gpu
