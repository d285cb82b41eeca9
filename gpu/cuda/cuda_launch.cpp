#include "gpu/cuda/cuda_launch.h"

#include "gpu/cuda/cuda_kernels.h"
#include "gpu/cuda/cuda_status.h"

namespace kvsim::gpu {
namespace {

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
  const int threads = num_threads(kernel, batch);
  const void* function = kernel_function(kernel, threads);
  std::size_t on_chip_bytes = on_chip_wanted(kernel, batch);
  if (on_chip_bytes > 0) {
    const std::size_t most = most_on_chip(function);
    if (on_chip_bytes > most) on_chip_bytes = 0;
    check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(most)),
          "cudaFuncSetAttribute");
  }
  void* arguments[] = {const_cast<Batch*>(&batch), &on_chip_bytes};  // copied by the launch
  check(cudaLaunchKernel(function, dim3(static_cast<unsigned>(num_blocks)),
                         dim3(static_cast<unsigned>(threads)), arguments, on_chip_bytes, stream),
        name_of(kernel));
}

cudaError_t code_status() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel_function(Kernel::weigh_row, kMostThreads));
}

}  // namespace kvsim::gpu
