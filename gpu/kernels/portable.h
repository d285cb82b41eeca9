#pragma once

#include <cstdint>

/// Marks a function of a kernel. CUDA compiles it for the device; any other compiler makes a plain
/// function of it, so that tests can run the same code on any machine.
#ifdef __CUDACC__
#define KVSIM_DEVICE __device__
#else
#define KVSIM_DEVICE
#endif

/// Unrolls the loop that follows on the device, so that arrays indexed in it stay in registers.
#ifdef __CUDACC__
#define KVSIM_UNROLL _Pragma("unroll")
#else
#define KVSIM_UNROLL
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
