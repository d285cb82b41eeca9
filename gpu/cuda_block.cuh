#pragma once

#include <cstring>

#include "gpu/sum_values.h"

namespace kvsim::gpu {

/// The threads of one CUDA thread block, which all run the same kernel and meet in each member:
/// what one wrote before is there for all afterwards. Members are called by all threads with the
/// same counts.
class CudaBlock {
 public:
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / 32;

  __device__ CudaBlock(void* on_chip, std::size_t on_chip_bytes)
      : on_chip_(on_chip), on_chip_bytes_(on_chip_bytes) {}

  /// work(i) for i < count, each by one thread: a thread meets the same i in every call.
  template <class Work>
  __device__ void each(int count, Work work) {
    for (int i = thread(); i < count; i += kThreads) work(i);
    __syncthreads();
  }

  /// work() by one thread.
  template <class Work>
  __device__ void once(Work work) {
    if (thread() == 0) work();
    __syncthreads();
  }

  /// value(0) .. value(count - 1), each taken once as by each(), combined in an order that depends
  /// on `count` alone. All threads get the result. Two calls in a row need no meeting between them,
  /// as they leave their parts in different places.
  template <class T, class Value, class Combine>
  __device__ T reduce(int count, T identity, Value value, Combine combine) {
    T mine = identity;
    for (int i = thread(); i < count; i += kThreads) mine = combine(mine, value(i));
    for (int distance = 16; distance > 0; distance /= 2) {
      mine = combine(mine, from_lane_above(mine, distance));
    }
    __shared__ T parts[2][kWarps];
    turn_ = 1 - turn_;
    if (thread() % 32 == 0) parts[turn_][thread() / 32] = mine;
    __syncthreads();
    T all = parts[turn_][0];
    for (int warp = 1; warp < kWarps; ++warp) all = combine(all, parts[turn_][warp]);
    return all;
  }

  /// take(i, place) for those i < count that hold, `place` counting them in ascending order. How
  /// many they are.
  template <class Holds, class Take>
  __device__ int select(int count, Holds holds, Take take) {
    __shared__ int counts[2][kWarps];
    int num_taken = 0;
    for (int first = 0; first < count; first += kThreads) {
      const int i = first + thread();
      const bool is_held = i < count && holds(i);
      const unsigned held = __ballot_sync(0xffffffff, is_held);
      turn_ = 1 - turn_;
      if (thread() % 32 == 0) counts[turn_][thread() / 32] = __popc(held);
      __syncthreads();
      int place = num_taken + __popc(held & ((1u << (thread() % 32)) - 1));
      for (int warp = 0; warp < kWarps; ++warp) {
        if (warp < thread() / 32) place += counts[turn_][warp];
        num_taken += counts[turn_][warp];
      }
      if (is_held) take(i, place);
    }
    __syncthreads();
    return num_taken;
  }

  /// Memory of the processor that the block runs on, uninitialised and aligned for double; null if
  /// it has less.
  __device__ void* on_chip(std::size_t bytes) {
    return bytes <= on_chip_bytes_ ? on_chip_ : nullptr;
  }

  /// A tile [kTileRows, kTileDims] of a matrix product, summed up in fp64 by the matrix units. A
  /// warp has eight rows; mma.m8n8k4 gives lane l the element (l / 4, l % 4) of its left operand,
  /// (l % 4, l / 4) of its right one, and (l / 4, 2 (l % 4)) and the next one of the sum (PTX ISA,
  /// "Matrix Fragments for mma.m8n8k4 with .f64 floating point type").
  class Tile {
   public:
    __device__ explicit Tile(CudaBlock&) {
      __shared__ double left[kTileRows * kLeftStride];
      __shared__ double right[kTileTerms * kRightStride];
      left_ = left;
      right_ = right;
    }

    /// The operands of the next multiply_add().
    __device__ double& left(int row, int term) { return left_[row * kLeftStride + term]; }
    __device__ double& right(int term, int dim) { return right_[term * kRightStride + dim]; }

    /// sum += left * right.
    __device__ void multiply_add() {
      for (int first = 0; first < kTileTerms; first += 4) {
        const double a = left(first_row() + lane() / 4, first + lane() % 4);
#pragma unroll
        for (int i = 0; i < kDimParts; ++i) {
          const double b = right(first + lane() % 4, 8 * i + lane() / 4);
          asm volatile(
              "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
              : "+d"(sum_[i][0]), "+d"(sum_[i][1])
              : "d"(a), "d"(b));
        }
      }
      __syncthreads();
    }

    /// visit(row, dim, sum) for all elements.
    template <class Visit>
    __device__ void for_each(Visit visit) {
#pragma unroll
      for (int i = 0; i < kDimParts; ++i) {
        const int dim = 8 * i + 2 * (lane() % 4);
        visit(first_row() + lane() / 4, dim, sum_[i][0]);
        visit(first_row() + lane() / 4, dim + 1, sum_[i][1]);
      }
    }

   private:
    // So that the lanes that read together read from different banks.
    static constexpr int kLeftStride = kTileTerms + 4;
    static constexpr int kRightStride = kTileDims + 4;
    static constexpr int kDimParts = kTileDims / 8;
    static_assert(kTileRows == 8 * kWarps);

    __device__ static int lane() { return thread() % 32; }
    __device__ static int first_row() { return thread() / 32 * 8; }

    double* left_;
    double* right_;
    double sum_[kDimParts][2] = {};
  };

 private:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  template <class T>
  __device__ static T from_lane_above(const T& item, int distance) {
    static_assert(sizeof(T) % sizeof(unsigned) == 0);
    constexpr int kWords = sizeof(T) / sizeof(unsigned);
    unsigned words[kWords];
    memcpy(words, &item, sizeof(T));
    for (int i = 0; i < kWords; ++i) words[i] = __shfl_down_sync(0xffffffff, words[i], distance);
    T result;
    memcpy(&result, words, sizeof(T));
    return result;
  }

  void* on_chip_;
  std::size_t on_chip_bytes_;
  int turn_ = 0;
};

}  // namespace kvsim::gpu
