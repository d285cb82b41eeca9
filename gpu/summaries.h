#pragma once

#include "gpu/device.h"
#include "sim/core/device_summaries.h"

namespace kvsim::gpu {

/// As the members of DeviceSummaries, on one device. Throw OutOfDeviceMemory if it has no room for
/// the unit, a block of steps, and what is summed up.
std::vector<std::int64_t> count_small(Device& device, const Unit& unit, double threshold);
std::vector<std::vector<PivotalSteps>> pivotal_steps(Device& device, const Unit& unit,
                                                     const PivotalThreshold& threshold);
FutureSums future_sums(Device& device, const Unit& unit, int first_measured);

}  // namespace kvsim::gpu
