#pragma once

#include "gpu/kernels/kernels.h"

namespace kvsim::gpu {

/// The __global__ function of a kernel whose thread blocks have `threads` threads, as num_threads()
/// gives them. Its arguments are a Batch and the bytes of dynamic shared memory, a std::size_t.
const void* kernel_function(Kernel kernel, int threads);

}  // namespace kvsim::gpu
