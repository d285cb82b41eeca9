#include "gpu/cuda/cuda_resources.h"

namespace kvsim::gpu {

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return Stream(stream);
}

Blas make_blas(cudaStream_t stream) {
  cublasHandle_t handle = nullptr;
  check(cublas().create(&handle), "cublasCreate");
  Blas blas(handle);
  check(cublas().set_stream(handle, stream), "cublasSetStream");
  check(cublas().set_math_mode(handle, CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
  return blas;
}

}  // namespace kvsim::gpu
