#pragma once

#include "gpu/kernels/portable.h"

namespace kvsim::gpu {

/// Bins of ThreadBlock::find_ranked().
inline constexpr int kBins = 256;

/// The bin of an item of some rank, and the number of items in later bins.
struct RankedBin {
  int bin;
  int num_above;
};

/// The key of some rank, and the number of larger keys.
template <class Key>
struct RankedKey {
  Key key;
  int num_larger;
};

/// The key of rank `rank`, rank 0 being the largest, among unsigned keys key_of(0) ..
/// key_of(count - 1); `rank` is below `count`. A radix selection: the leading eight bits of the key
/// that are not known yet are found in one pass over all keys that agree in those before.
template <class Key, class Block, class KeyOf>
KVSIM_DEVICE RankedKey<Key> find_ranked_key(Block& block, int count, int rank, KeyOf key_of) {
  constexpr int kBits = 8;
  static_assert(1 << kBits == kBins);
  RankedKey<Key> found{0, 0};
  for (int shift = 8 * static_cast<int>(sizeof(Key)) - kBits; shift >= 0; shift -= kBits) {
    const RankedBin digit = block.find_ranked(count, rank - found.num_larger, [&](int i) {
      const Key key = key_of(i);
      const bool agrees = ((key ^ found.key) >> shift >> kBits) == 0;
      return agrees ? static_cast<int>(key >> shift & (kBins - 1)) : -1;
    });
    found.key |= static_cast<Key>(digit.bin) << shift;
    found.num_larger += digit.num_above;
  }
  return found;
}

}  // namespace kvsim::gpu
