#include "gpu/cuda_status.h"

#include <fmt/format.h>

#include <stdexcept>

namespace kvsim::gpu {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // the error has been told: the next launch must not report it again
  throw std::runtime_error(fmt::format("{}: {}", call, cudaGetErrorString(status)));
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaGetLastError();
  throw std::runtime_error(fmt::format("{}: {}", call, cublasGetStatusString(status)));
}

}  // namespace kvsim::gpu
