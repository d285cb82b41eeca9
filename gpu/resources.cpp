#include "gpu/resources.h"

#include <fmt/format.h>

#include <stdexcept>

namespace kvsim::gpu {

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return Stream(stream);
}

Blas make_blas(cudaStream_t stream) {
  cublasHandle_t handle = nullptr;
  check(cublasCreate(&handle), "cublasCreate");
  Blas blas(handle);
  check(cublasSetStream(handle, stream), "cublasSetStream");
  check(cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
  return blas;
}

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // as check() does
    constexpr double kMebibyte = 1 << 20;
    throw std::runtime_error(
        fmt::format("the CUDA device has no room for another {:.1f} MiB (cudaMalloc: {}); use "
                    "--device cpu",
                    static_cast<double>(bytes) / kMebibyte, cudaGetErrorString(status)));
  }
  check(status, "cudaMalloc");
  return memory;
}

}  // namespace kvsim::gpu
