#pragma once

#include <memory>

#include "gpu/device.h"
#include "sim/core/attention.h"

namespace kvsim::gpu {

/// The full attention of `unit`, which has to outlive it, on a device of its own. Throws
/// OutOfDeviceMemory if that has no room for one unit and a block of steps.
std::unique_ptr<AttentionPass> make_device_pass(std::unique_ptr<Device> device, const Unit& unit);

}  // namespace kvsim::gpu
