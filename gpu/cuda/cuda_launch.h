#pragma once

#include <cuda_runtime.h>

#include "gpu/kernels/kernels.h"

namespace kvsim::gpu {

/// Starts a kernel on `stream`, with on-chip memory if the device has as much as it wants. Throws
/// std::runtime_error if the launch fails.
void launch(Kernel kernel, const Batch& batch, cudaStream_t stream);

/// cudaSuccess if this build has code for the current device, else CUDA's error.
cudaError_t code_status();

}  // namespace kvsim::gpu
