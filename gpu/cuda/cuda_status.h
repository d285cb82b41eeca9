#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <string>

namespace kvsim::gpu {

/// Throws std::runtime_error, "<call>: <reason>", unless the call succeeded; OutOfDeviceMemory if
/// the device has no memory left.
void check(cudaError_t status, const std::string& call);
void check(cublasStatus_t status, const std::string& call);

}  // namespace kvsim::gpu
