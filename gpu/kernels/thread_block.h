#pragma once

#include <cstring>

#include "gpu/kernels/find_ranked_key.h"
#include "gpu/kernels/product_tile.h"

namespace kvsim::gpu {

/// What a thread block can do; the kernels are written in these operations. All threads of a block
/// call each member, with the same counts. Each member whose name does not say `own` synchronises
/// them: what a thread wrote before is visible to all threads afterwards.
///
/// A block has `num_threads` threads, a multiple of 32; find_ranked() and Tile take kMostThreads.
/// `Threads` is what the hardware offers: the thread's `index()` among them, a barrier, memory
/// shared by the block, a counter for all threads, and for warps of 32 threads a shuffle, a ballot
/// and products of small matrices. gpu/cuda/cuda_threads.cuh defines each member.
template <class Threads, int num_threads = kMostThreads>
class ThreadBlock {
 public:
  static constexpr int kThreads = num_threads;
  static constexpr int kWarps = kThreads / 32;
  /// Whether it has find_ranked(), whose bins would take a warp's share of the on-chip memory.
  static constexpr bool kFindsRanked = kThreads == kBins;

  KVSIM_DEVICE ThreadBlock(void* on_chip, std::size_t on_chip_bytes)
      : on_chip_(on_chip), on_chip_bytes_(on_chip_bytes) {}

  /// Calls work(i) for i < count, each on one thread. The same thread has the same i in every call.
  template <class Work>
  KVSIM_DEVICE void each(int count, Work work) {
    for (int i = Threads::index(); i < count; i += kThreads) work(i);
    Threads::synchronize();
  }

  /// The same without synchronising: what work(i) writes is only for the thread that has i.
  template <class Work>
  KVSIM_DEVICE void each_own(int count, Work work) {
    for (int i = Threads::index(); i < count; i += kThreads) work(i);
  }

  /// Calls work() on the thread that has i in each(), without synchronising.
  template <class Work>
  KVSIM_DEVICE void on_owner(int i, Work work) {
    if (Threads::index() == i % kThreads) work();
  }

  /// Calls work() on one thread.
  template <class Work>
  KVSIM_DEVICE void once(Work work) {
    if (Threads::index() == 0) work();
    Threads::synchronize();
  }

  /// Combines value(0) .. value(count - 1) in an order that depends on `count` alone; the threads
  /// call value() as each() calls work(). All threads get the result. Two calls in a row need no
  /// barrier between them, as they alternate between two buffers.
  template <class T, class Value, class Combine>
  KVSIM_DEVICE T reduce(int count, T identity, Value value, Combine combine) {
    T mine = identity;
    for (int i = Threads::index(); i < count; i += kThreads) mine = combine(mine, value(i));
    for (int distance = 16; distance > 0; distance /= 2) {
      mine = combine(mine, from_lane_above(mine, distance));
    }
    turn_ = 1 - turn_;
    T* parts = Threads::template shared<PerWarp<T>>().items[turn_];
    if (lane() == 0) parts[warp()] = mine;
    Threads::synchronize();
    T all = parts[0];
    for (int i = 1; i < kWarps; ++i) all = combine(all, parts[i]);
    return all;
  }

  /// Calls take(i, place) for each i < count for which holds(i), where `place` numbers them in
  /// ascending order. Returns how many there are.
  template <class Holds, class Take>
  KVSIM_DEVICE int select(int count, Holds holds, Take take) {
    int num_taken = 0;
    for (int first = 0; first < count; first += kThreads) {
      const int i = first + Threads::index();
      const bool is_held = i < count && holds(i);
      const unsigned held = Threads::ballot(is_held);
      turn_ = 1 - turn_;
      int* counts = Threads::template shared<PerWarp<int>>().items[turn_];
      if (lane() == 0) counts[warp()] = count_bits(held);
      Threads::synchronize();
      int place = num_taken + count_bits(held & ((1U << lane()) - 1));
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp()) place += counts[w];
        num_taken += counts[w];
      }
      if (is_held) take(i, place);
    }
    Threads::synchronize();
    return num_taken;
  }

  /// Items are in bins 0 .. kBins - 1, or in none: then bin(i) is negative. Finds the bin of the
  /// item of rank `rank`, rank 0 being an item of the last bin that has any; there must be more
  /// than `rank` items. Each call of bin() is made as each() calls work().
  template <class Bin>
  KVSIM_DEVICE RankedBin find_ranked(int count, int rank, Bin bin) {
    static_assert(kFindsRanked);
    int* counts = Threads::template shared<BinCounts>().counts;
    counts[Threads::index()] = 0;
    Threads::synchronize();
    for (int i = Threads::index(); i < count; i += kThreads) {
      const int of_item = bin(i);
      if (of_item >= 0) Threads::increment(counts[of_item]);
    }
    Threads::synchronize();
    const int own = counts[Threads::index()];
    int from_here = own;  // items in bins from this thread's on: first those of its warp
    for (int distance = 1; distance < 32; distance *= 2) {
      const int further = from_lane_above(from_here, distance);
      if (lane() + distance < 32) from_here += further;
    }
    turn_ = 1 - turn_;
    int* of_warps = Threads::template shared<PerWarp<int>>().items[turn_];
    if (lane() == 0) of_warps[warp()] = from_here;
    Threads::synchronize();
    for (int w = warp() + 1; w < kWarps; ++w) from_here += of_warps[w];
    auto& found = Threads::template shared<RankedBin>();
    const int num_above = from_here - own;
    if (num_above <= rank && rank < from_here) found = {Threads::index(), num_above};
    Threads::synchronize();
    return found;
  }

  /// Fast memory of the block (CUDA: dynamic shared memory), uninitialised and aligned for double;
  /// null if the block has fewer bytes.
  KVSIM_DEVICE void* on_chip(std::size_t bytes) {
    return bytes <= on_chip_bytes_ ? on_chip_ : nullptr;
  }

  /// A tile of a matrix product; all threads call its members.
  class Tile : public ProductTile<Threads, kThreads> {
   public:
    KVSIM_DEVICE explicit Tile(ThreadBlock&) {}
  };

 private:
  template <class T>
  struct PerWarp {
    T items[2][kWarps];
  };

  struct BinCounts {
    int counts[kBins];
  };

  KVSIM_DEVICE static int lane() { return Threads::index() % 32; }
  KVSIM_DEVICE static int warp() { return Threads::index() / 32; }

  template <class T>
  KVSIM_DEVICE static T from_lane_above(const T& item, int distance) {
    static_assert(sizeof(T) % sizeof(unsigned) == 0);
    constexpr int kWords = sizeof(T) / sizeof(unsigned);
    unsigned words[kWords];
    memcpy(words, &item, sizeof(T));
    for (int i = 0; i < kWords; ++i) words[i] = Threads::from_lane_above(words[i], distance);
    T result;
    memcpy(&result, words, sizeof(T));
    return result;
  }

  void* on_chip_;
  std::size_t on_chip_bytes_;
  int turn_ = 0;
};

}  // namespace kvsim::gpu
