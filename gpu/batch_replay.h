#pragma once

#include <span>
#include <vector>

#include "gpu/device.h"
#include "sim/sweep/device_replays.h"

namespace kvsim::gpu {

/// Whether a device can replay a policy of these rules: it follows a score rule or selects by the
/// full attention of each step, decides per KV head, and attends to recorded keys and values. It
/// measures against the full attention, and evicts token by token.
bool can_replay(const Rules& rules, const Protocol& protocol);

/// How many units of this shape, each with one replay per element of `rules`, keep a device busy;
/// fewer if they do not fit in `free_bytes`, but at least one.
std::size_t units_at_once(const ReplayShape& shape, std::span<const Rules> rules,
                          std::size_t free_bytes);

/// Replays configurations of many units on a device, one batch per shape. A batch that runs out of
/// device memory is split in halves. Outcomes are per unit and configuration and agree with the
/// CPU's up to rounding. Throws OutOfDeviceMemory if a single replay does not fit, and Interrupted.
std::vector<std::vector<Outcome>> replay_on(Device& device, std::span<const UnitReplays> units,
                                            const ReplayOptions& options);

}  // namespace kvsim::gpu
