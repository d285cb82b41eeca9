#pragma once

#include <cstdint>

/// Marks what the kernels of a device are made of. Another compiler than CUDA's makes plain
/// functions of it, so that the same lines can be run and tested on any machine.
#ifdef __CUDACC__
#define KVSIM_DEVICE __device__
#else
#define KVSIM_DEVICE
#endif

namespace kvsim::gpu {

KVSIM_DEVICE inline int count_bits(std::uint64_t word) {
#ifdef __CUDA_ARCH__
  return __popcll(word);
#else
  return __builtin_popcountll(word);
#endif
}

}  // namespace kvsim::gpu
