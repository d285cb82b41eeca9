#pragma once

#include "gpu/device.h"
#include "sim/attention/device_summaries.h"

namespace kvsim::gpu {

/// The members of DeviceSummaries (sim/attention/device_summaries.h), on one device. They throw
/// OutOfDeviceMemory if the unit, a block of steps and the summary do not fit.
std::vector<std::int64_t> count_small(Device& device, const Unit& unit, double threshold);
std::vector<std::vector<PivotalSteps>> pivotal_steps(Device& device, const Unit& unit,
                                                     const PivotalThreshold& threshold);
FutureSums future_sums(Device& device, const Unit& unit, int first_measured);

}  // namespace kvsim::gpu
