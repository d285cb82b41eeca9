#pragma once

#include <memory>

#include "gpu/device.h"

namespace kvsim::gpu {

/// A stream of its own on the current CUDA device.
std::unique_ptr<Device> make_cuda_device();

}  // namespace kvsim::gpu
