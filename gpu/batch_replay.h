#pragma once

#include <span>
#include <vector>

#include "gpu/device.h"
#include "sim/core/device_replays.h"

namespace kvsim::gpu {

/// Whether a device can replay a policy of these rules: one that follows a score rule, or selects
/// by the attention of each step, decides for one head and attends to what was recorded.
bool can_replay(const Rules& rules);

/// How many units of this shape, with a replay by each of the rules, keep a device busy, fewer if
/// `free_bytes` has no room for them, at least one.
std::size_t units_at_once(const ReplayShape& shape, std::span<const Rules> rules,
                          std::size_t free_bytes);

/// Replays configurations of many units on a device, units of one shape together. If the device
/// runs out of memory, in halves; throws OutOfDeviceMemory if it has no room for a single replay.
/// Outcomes are per unit and configuration and agree with those of the CPU up to rounding.
std::vector<std::vector<Outcome>> replay_on(Device& device, std::span<const UnitReplays> units,
                                            const ReplayOptions& options);

}  // namespace kvsim::gpu
