#include "tests/cuda/kernels.h"

#include <atomic>
#include <memory>
#include <mutex>

#include "gpu/cuda/cuda_kernels.h"
#include "gpu/kernels/thread_block.h"
#include "tests/cuda/stub/stub.h"
#include "tests/gpu/emulated_threads.h"
#include "tests/gpu/host_device.h"

// Takes the place of gpu/cuda/cuda_kernels.cu.

namespace kvsim::cuda_test {
namespace {

std::atomic<bool> is_emulated = false;

template <gpu::Kernel kKernel>
void run_warp(const gpu::Batch& batch, std::size_t on_chip_bytes, int index) {
  std::vector<double> on_chip(on_chip_bytes / sizeof(double) + 1);
  const auto work = [&] {
    gpu::ThreadBlock<gpu_test::EmulatedThreads, gpu::kWarpThreads> block(on_chip.data(),
                                                                         on_chip_bytes);
    gpu::run_thread_block<kKernel>(block, batch, index);
  };
  gpu_test::run_emulated(work, gpu::kWarpThreads);
}

template <gpu::Kernel kKernel, int kThreads>
std::function<void(unsigned)> take(void** arguments) {
  const gpu::Batch batch = *static_cast<const gpu::Batch*>(arguments[0]);
  const std::size_t on_chip_bytes = *static_cast<const std::size_t*>(arguments[1]);
  return [=](unsigned index) {
    if constexpr (kThreads == gpu::kWarpThreads) {
      if (is_emulated) return run_warp<kKernel>(batch, on_chip_bytes, static_cast<int>(index));
    }
    gpu_test::run_on_host(kKernel, batch, on_chip_bytes, static_cast<int>(index));
  };
}

template <gpu::Kernel kKernel, int kThreads>
const void* address() {
  static const cuda_stub::StandIn stand_in{take<kKernel, kThreads>, kThreads};
  return &stand_in;
}

}  // namespace

EmulatedWarps::EmulatedWarps() { is_emulated = true; }
EmulatedWarps::~EmulatedWarps() { is_emulated = false; }

}  // namespace kvsim::cuda_test

namespace kvsim::gpu {

const void* kernel_function(Kernel kernel, int threads) {
  const void* function = nullptr;
  dispatch(kernel, [&]<Kernel kKernel>() {
    function = cuda_test::address<kKernel, kMostThreads>();
    if constexpr (kKernel == Kernel::replay_steps) {
      if (threads == kWarpThreads) function = cuda_test::address<kKernel, kWarpThreads>();
    }
  });
  return function;
}

}  // namespace kvsim::gpu
