#pragma once

#include <memory>

#include "gpu/device.h"
#include "sim/attention/attention.h"

namespace kvsim::gpu {

/// Computes the full attention of `unit`, which has to outlive it, on `device`. Leaves out outputs
/// that are optional. Throws OutOfDeviceMemory if one unit and a block of steps do not fit.
std::unique_ptr<AttentionPass> make_device_pass(std::shared_ptr<Device> device, const Unit& unit);

}  // namespace kvsim::gpu
