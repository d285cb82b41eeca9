#include "gpu/cuda/cuda_launch.h"
#include "gpu/cuda/cuda_status.h"
#include "gpu/cuda/cuda_threads.cuh"
#include "gpu/kernels/thread_block.h"

namespace kvsim::gpu {
namespace {

// Thread blocks that a multiprocessor should hold at least, which bounds the registers of a thread;
// 0: as many as the compiler likes. Steps of a replay wait for memory and for each other; while the
// threads of one sum wait at a barrier, those of another multiply.
constexpr int least_blocks(Kernel kernel, int threads) {
  if (kernel == Kernel::sum_values) return 2;
  if (kernel != Kernel::replay_steps) return 0;
  return threads == kWarpThreads ? 24 : 3;
}

template <Kernel kKernel, int kThreads>
__global__ void __launch_bounds__(kThreads, least_blocks(kKernel, kThreads))
    run(Batch batch, std::size_t on_chip_bytes) {
  extern __shared__ double on_chip[];
  ThreadBlock<CudaThreads, kThreads> block(on_chip, on_chip_bytes);
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

template <Kernel kKernel, int kThreads>
void start(const Batch& batch, cudaStream_t stream) {
  std::size_t on_chip_bytes = on_chip_wanted(kKernel, batch);
  if (on_chip_bytes > 0) {
    const auto* function = reinterpret_cast<const void*>(run<kKernel, kThreads>);
    if (on_chip_bytes > most_on_chip(function)) on_chip_bytes = 0;
    check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(most_on_chip(function))),
          "cudaFuncSetAttribute");
  }
  const int num_blocks = num_thread_blocks(kKernel, batch);
  run<kKernel, kThreads><<<num_blocks, kThreads, on_chip_bytes, stream>>>(batch, on_chip_bytes);
  check(cudaGetLastError(), name_of(kKernel));
}

}  // namespace

void launch(Kernel kernel, const Batch& batch, cudaStream_t stream) {
  if (num_thread_blocks(kernel, batch) == 0) return;
  const bool is_warp = num_threads(kernel, batch) == kWarpThreads;
  dispatch(kernel, [&]<Kernel kKernel>() {
    if constexpr (kKernel == Kernel::replay_steps) {
      if (is_warp) return start<kKernel, kWarpThreads>(batch, stream);
    }
    start<kKernel, kMostThreads>(batch, stream);
  });
}

cudaError_t code_status() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, run<Kernel::weigh_row, kMostThreads>);
}

}  // namespace kvsim::gpu
