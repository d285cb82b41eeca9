#pragma once

#include <memory>

#include "gpu/device.h"

namespace kvsim::gpu {

/// The current CUDA device, with a stream and a cuBLAS handle of its own. Throws std::runtime_error
/// if CUDA or cuBLAS fails.
std::unique_ptr<Device> make_cuda_device();

}  // namespace kvsim::gpu
