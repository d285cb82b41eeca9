#pragma once

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

  /// sum += a * b of matrices [8, 4] and [4, 8] in fp64, on the matrix units. Lane l has the
  /// element (l / 4, l % 4) of a, (l % 4, l / 4) of b, and (l / 4, 2 (l % 4)) and the next one of
  /// the sum (PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64 floating point type"). Called by
  /// all lanes.
  __device__ static void multiply_add(double (&sum)[2], double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(sum[0]), "+d"(sum[1])
                 : "d"(a), "d"(b));
  }

 private:
  static constexpr unsigned kAllLanes = 0xffffffff;
};

}  // namespace kvsim::gpu
