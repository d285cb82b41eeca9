#pragma once

#include "gpu/kernels/batch.h"

namespace kvsim::gpu {

/// Chooses for every replay of a unit the parent from whose sums its own are computed: another
/// replay, the full cache or the empty one. An edge costs the number of tokens missing from just
/// one of the two caches; Prim's algorithm finds the minimum spanning tree.
/// CPU counterpart: spanning_tree() in sim/cache/spanning_tree.h.
template <class Block>
KVSIM_DEVICE void link_caches(Block& block, const Batch& batch, int unit) {
  const int first = batch.units[unit].first_replay;
  const int count = batch.units[unit].num_replays;
  const int words = (batch.width() + 63) / 64;
  const auto missing = [&](int replay) {
    return batch.missing + static_cast<std::size_t>(replay) * batch.words();
  };
  block.each(count, [&](int i) {
    const std::uint64_t* set = missing(first + i);
    int size = 0;
    for (int word = 0; word < words; ++word) size += count_bits(set[word]);
    const bool is_nearly_full = 2 * size <= batch.width();
    batch.parent[first + i] = is_nearly_full ? kFullCache : kEmptyCache;
    batch.distance[first + i] = is_nearly_full ? size : batch.width() - size;
  });
  constexpr int kLinked = -1;
  struct Nearest {
    int distance;
    int replay;
  };
  constexpr Nearest kNone{0x7fffffff, 0x7fffffff};
  for (int place = 0; place < count; ++place) {
    const Nearest next = block.reduce(
        count, kNone,
        [&](int i) {
          const int distance = batch.distance[first + i];
          return distance == kLinked ? kNone : Nearest{distance, first + i};
        },
        [](const Nearest& a, const Nearest& b) {
          const bool is_nearer =
              b.distance < a.distance || (b.distance == a.distance && b.replay < a.replay);
          return is_nearer ? b : a;
        });
    block.once([&] {
      batch.order[first + place] = next.replay;
      batch.distance[next.replay] = kLinked;
    });
    block.each(count, [&](int i) {
      if (batch.distance[first + i] == kLinked) return;
      const std::uint64_t* mine = missing(first + i);
      const std::uint64_t* theirs = missing(next.replay);
      int distance = 0;
      for (int word = 0; word < words; ++word) distance += count_bits(mine[word] ^ theirs[word]);
      if (distance >= batch.distance[first + i]) return;
      batch.distance[first + i] = distance;
      batch.parent[first + i] = next.replay;
    });
  }
}

/// Lists the terms of a replay, as of the beginning of the block, and the tokens evicted during the
/// block before its last step. CPU counterpart: TreeSums::link() and
/// RetainedOutputs::list_evictions() in sim/outputs, as of the middle of a block.
template <class Block>
KVSIM_DEVICE void list_terms(Block& block, const Batch& batch, int replay) {
  const int parent = batch.parent[replay];
  const std::size_t first = batch.tokens_of(replay);
  const auto is_missing = [&](int of, int token) {
    const std::uint64_t* set = batch.missing + static_cast<std::size_t>(of) * batch.words();
    return ((set[token >> 6] >> (token & 63)) & 1) != 0;
  };
  const auto parent_misses = [&](int token) {
    return parent >= 0 ? is_missing(parent, token) : parent == kEmptyCache;
  };
  const int num_terms = block.select(
      batch.width(), [&](int token) { return is_missing(replay, token) != parent_misses(token); },
      [&](int token, int place) {
        batch.term[first + place] = is_missing(replay, token) ? token : ~token;
      });
  const int num_evicted = block.select(
      batch.width(),
      [&](int token) {
        const int left = batch.evicted_after[first + token];
        return batch.first_step <= left && left < batch.width() - 1;
      },
      [&](int token, int place) { batch.evicted[first + place] = token; });
  block.once([&] {
    batch.num_terms[replay] = num_terms;
    batch.num_evicted[replay] = num_evicted;
  });
}

}  // namespace kvsim::gpu
