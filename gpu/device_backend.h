#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gpu/device.h"
#include "sim/attention/attention.h"

namespace kvsim::gpu {

/// Attention, replays and summaries on the devices that `make_device` makes, one for every call at
/// the same time, so that several threads may call at once. Devices and their memory are kept for
/// later calls. `name` is Backend::device().
std::unique_ptr<Backend> make_device_backend(std::string name,
                                             std::function<std::unique_ptr<Device>()> make_device);

}  // namespace kvsim::gpu
