#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

namespace kvsim::gpu {

/// Throws std::runtime_error, "<call>: <reason>", unless the call succeeded.
void check(cudaError_t status, const char* call);
void check(cublasStatus_t status, const char* call);

}  // namespace kvsim::gpu
