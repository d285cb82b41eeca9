#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gpu/device.h"
#include "sim/core/attention.h"

namespace kvsim::gpu {

/// Attention and replays on devices that `make_device` gives, a fresh one for every call, so that
/// calls of several threads share nothing.
std::unique_ptr<Backend> make_device_backend(std::string name,
                                             std::function<std::unique_ptr<Device>()> make_device);

}  // namespace kvsim::gpu
