#pragma once

#include <cuda_runtime.h>

#include "gpu/kernels.h"

namespace kvsim::gpu {

/// Starts a kernel on `stream`.
void launch(Kernel kernel, const Batch& batch, cudaStream_t stream);

/// Whether this build has code for the current device.
cudaError_t code_status();

}  // namespace kvsim::gpu
