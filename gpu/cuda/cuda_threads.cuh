#pragma once

#include "gpu/kernels/product_tile.h"

namespace kvsim::gpu {

/// The operations of a CUDA thread that ThreadBlock is built on.
struct CudaThreads {
  __device__ static int index() { return static_cast<int>(threadIdx.x); }

  /// A barrier of the block: what any thread wrote before is visible to all afterwards.
  __device__ static void synchronize() { __syncthreads(); }

  /// An object in shared memory, one per type and block, not initialised.
  template <class T>
  __device__ static T& shared() {
    __shared__ T object;
    return object;
  }

  /// Adds 1 to a number in shared memory, also if other threads do at the same time.
  __device__ static void increment(int& number) { atomicAdd(&number, 1); }

  /// The word of the lane `distance` above in the warp, or the lane's own word if there is none.
  /// Called by all lanes.
  __device__ static unsigned from_lane_above(unsigned word, int distance) {
    return __shfl_down_sync(kAllLanes, word, distance);
  }

  /// A word with a bit set for each lane whose `yes` is true. Called by all lanes.
  __device__ static unsigned ballot(bool yes) { return __ballot_sync(kAllLanes, yes); }

  /// sum += a * b of matrices [16, 16] and [16, 8] in fp64, on the matrix units. With g = l / 4 and
  /// k = l % 4, lane l has of a the elements (g, k + 2i) for even i and (g + 8, k + 2i - 2) for odd
  /// i, of b the elements (k + 4i, g), and of the sum (g, 2k), (g, 2k + 1), (g + 8, 2k) and
  /// (g + 8, 2k + 1) (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type").
  /// Called by all lanes.
  __device__ static void multiply_add(double (&sum)[4], const double (&a)[8],
                                      const double (&b)[4]) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
          "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
    multiply_in_parts<CudaThreads>(sum, a, b);
#endif
  }

  /// The same of matrices [8, 4] and [4, 8]. Lane l has the element (l / 4, l % 4) of a,
  /// (l % 4, l / 4) of b, and (l / 4, 2 (l % 4)) and the next one of the sum (PTX ISA, "Matrix
  /// Fragments for mma.m8n8k4 with .f64 floating point type"). Called by all lanes.
  __device__ static void multiply_add_part(double& sum0, double& sum1, double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(sum0), "+d"(sum1)
                 : "d"(a), "d"(b));
  }

 private:
  static constexpr unsigned kAllLanes = 0xffffffff;
};

}  // namespace kvsim::gpu
