#include "gpu/cuda/cuda_kernels.h"
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

template <Kernel kKernel, int kThreads>
const void* address() {
  return reinterpret_cast<const void*>(run<kKernel, kThreads>);
}

}  // namespace

const void* kernel_function(Kernel kernel, int threads) {
  const void* function = nullptr;
  dispatch(kernel, [&]<Kernel kKernel>() {
    function = address<kKernel, kMostThreads>();
    if constexpr (kKernel == Kernel::replay_steps) {
      if (threads == kWarpThreads) function = address<kKernel, kWarpThreads>();
    }
  });
  return function;
}

}  // namespace kvsim::gpu
