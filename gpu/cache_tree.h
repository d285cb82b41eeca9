#pragma once

#include "gpu/batch.h"

namespace kvsim::gpu {

/// Finds for every replay of a unit the cheapest way to its sums: from those of another replay, of
/// the cache that lacks nothing or of the one that lacks everything, at the price of the tokens by
/// which the two differ. A minimum spanning tree by Prim's algorithm.
/// CPU counterpart: spanning_tree() in sim/core.
template <class Block>
KVSIM_DEVICE void link_caches(Block& block, const Batch& batch, int unit) {
  const int first = batch.units[unit].first_replay;
  const int count = batch.units[unit].num_replays;
  const int words = (batch.width() + 63) / 64;
  const auto lacking = [&](int replay) {
    return batch.lacking + static_cast<std::size_t>(replay) * batch.words();
  };
  block.each(count, [&](int i) {
    const std::uint64_t* set = lacking(first + i);
    int size = 0;
    for (int word = 0; word < words; ++word) size += count_bits(set[word]);
    const bool lacks_little = 2 * size <= batch.width();
    batch.parent[first + i] = lacks_little ? kLacksNothing : kLacksEverything;
    batch.distance[first + i] = lacks_little ? size : batch.width() - size;
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
      const std::uint64_t* mine = lacking(first + i);
      const std::uint64_t* theirs = lacking(next.replay);
      int distance = 0;
      for (int word = 0; word < words; ++word) distance += count_bits(mine[word] ^ theirs[word]);
      if (distance >= batch.distance[first + i]) return;
      batch.distance[first + i] = distance;
      batch.parent[first + i] = next.replay;
    });
  }
}

/// Lists the tokens by which a replay differs from its parent when the block begins, and those that
/// leave it during the block before its last step.
/// CPU counterpart: RetainedOutputs::list_terms() and list_departures() in sim/core.
template <class Block>
KVSIM_DEVICE void list_terms(Block& block, const Batch& batch, int replay) {
  const int parent = batch.parent[replay];
  const std::size_t first = batch.tokens_of(replay);
  const auto lacks = [&](int of, int token) {
    const std::uint64_t* set = batch.lacking + static_cast<std::size_t>(of) * batch.words();
    return ((set[token >> 6] >> (token & 63)) & 1) != 0;
  };
  const auto parent_lacks = [&](int token) {
    return parent >= 0 ? lacks(parent, token) : parent == kLacksEverything;
  };
  const int num_terms = block.select(
      batch.width(), [&](int token) { return lacks(replay, token) != parent_lacks(token); },
      [&](int token, int place) {
        batch.term[first + place] = lacks(replay, token) ? token : ~token;
      });
  const int num_late = block.select(
      batch.width(),
      [&](int token) {
        const int left = batch.evicted_after[first + token];
        return batch.first_step <= left && left < batch.width() - 1;
      },
      [&](int token, int place) { batch.late[first + place] = token; });
  block.once([&] {
    batch.num_terms[replay] = num_terms;
    batch.num_late[replay] = num_late;
  });
}

}  // namespace kvsim::gpu
