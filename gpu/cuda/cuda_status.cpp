#include "gpu/cuda/cuda_status.h"

#include <fmt/format.h>

#include "gpu/cuda/cublas.h"
#include "gpu/device.h"

namespace kvsim::gpu {
namespace {

// Clears CUDA's last error, so that the next launch does not report it again.
[[noreturn]] void fail(const std::string& call, const char* reason, bool is_memory) {
  cudaGetLastError();
  if (!is_memory) throw std::runtime_error(fmt::format("{}: {}", call, reason));
  throw OutOfDeviceMemory(
      fmt::format("the CUDA device has no room for more ({}: {}); use --device cpu", call, reason));
}

}  // namespace

void check(cudaError_t status, const std::string& call) {
  if (status == cudaSuccess) return;
  fail(call, cudaGetErrorString(status), status == cudaErrorMemoryAllocation);
}

void check(cublasStatus_t status, const std::string& call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(call, cublas().status_string(status), status == CUBLAS_STATUS_ALLOC_FAILED);
}

}  // namespace kvsim::gpu
