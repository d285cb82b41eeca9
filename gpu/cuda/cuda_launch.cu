#include "gpu/cuda/cuda_launch.h"
#include "gpu/cuda/cuda_status.h"
#include "gpu/cuda/cuda_threads.cuh"
#include "gpu/kernels/thread_block.h"

namespace kvsim::gpu {
namespace {

using CudaBlock = ThreadBlock<CudaThreads>;

template <Kernel kKernel>
__global__ void __launch_bounds__(CudaBlock::kThreads) run(Batch batch, std::size_t on_chip_bytes) {
  extern __shared__ double on_chip[];
  CudaBlock block(on_chip, on_chip_bytes);
  run_thread_block<kKernel>(block, batch, static_cast<int>(blockIdx.x));
}

// The most dynamic shared memory that a thread block of the kernel may have, in bytes.
std::size_t most_on_chip(const void* function) {
  int device = 0;
  int bytes = 0;
  cudaFuncAttributes attributes;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "cudaDeviceGetAttribute");
  check(cudaFuncGetAttributes(&attributes, function), "cudaFuncGetAttributes");
  return static_cast<std::size_t>(bytes) - attributes.sharedSizeBytes;
}

}  // namespace

void launch(Kernel kernel, const Batch& batch, cudaStream_t stream) {
  const int num_blocks = num_thread_blocks(kernel, batch);
  if (num_blocks == 0) return;
  dispatch(kernel, [&]<Kernel kKernel>() {
    std::size_t on_chip_bytes = on_chip_wanted(kernel, batch);
    if (on_chip_bytes > 0) {
      const auto* function = reinterpret_cast<const void*>(run<kKernel>);
      if (on_chip_bytes > most_on_chip(function)) on_chip_bytes = 0;
      check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(most_on_chip(function))),
            "cudaFuncSetAttribute");
    }
    run<kKernel><<<num_blocks, CudaBlock::kThreads, on_chip_bytes, stream>>>(batch, on_chip_bytes);
    check(cudaGetLastError(), name_of(kernel));
  });
}

cudaError_t code_status() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, run<Kernel::weigh_row>);
}

}  // namespace kvsim::gpu
