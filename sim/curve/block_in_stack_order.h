#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/attention/attention.h"

namespace kvsim {

/// The earlier tokens of a step as the caches of all budgets hold them: budget B keeps those at
/// places below B, the first of which is at `first_place`.
struct StackOrder {
  int first_place;                      ///< 0 unless pages leave; see PageStack
  std::span<const std::int32_t> order;  ///< [step]
  std::span<const float> weight;        ///< exp(l - max l), parallel to the order
};

/// In: per step of a block, the order of a PageStack. Out: the attention weights of the block,
/// permuted to that order. Budget B keeps the first B places of a step and the step's own token.
struct BlockInStackOrder {
  /// Weights of one query head.
  struct Head {
    BlockMatrix weight;           ///< exp(l - max l), [steps, places]; 0 beyond the order
    AlignedRows weight_by_place;  ///< its transpose, [places, kBlockSteps]; see transpose()
  };

  /// Per row, [StackOrder::first_place + step]; empty: not measured. Where a step has no token at
  /// its first places, any with weight 0.
  std::vector<std::vector<std::int32_t>> order;
  std::vector<int> first_place;  ///< per row
  std::vector<Head> heads;

  /// Prepares for `block`, whose steps have at most `num_places` places: no step is measured yet.
  void reset(const AttentionBlock& block, int num_places);

  /// The places of all rows.
  int num_places() const { return static_cast<int>(heads.front().weight.cols()); }

  /// Adds one measured step of a head.
  void add(int row, int head, const StackOrder& step);

  /// The step without the places that have no token.
  StackOrder step(int row, int head) const;

  /// Fills in `weight_by_place`, after the last add().
  void transpose();
};

}  // namespace kvsim
