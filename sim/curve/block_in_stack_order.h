#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/attention/attention.h"

namespace kvsim {

/// In: per step of a block, the order of a BudgetStack. Out: the attention weights of the block,
/// permuted to that order. Budget B keeps the first B places of a step and the step's own token.
struct BlockInStackOrder {
  /// Weights of one query head.
  struct Head {
    BlockMatrix weight;           ///< exp(l - max l), [steps, places]; 0 beyond the order
    AlignedRows weight_by_place;  ///< its transpose, [places, kBlockSteps]; see transpose()
  };

  std::vector<std::vector<std::int32_t>> order;  ///< per row: [step]; empty: not measured
  std::vector<Head> heads;

  /// Prepares for `block`: no step is measured yet.
  void reset(const AttentionBlock& block);

  /// Adds one measured step of a head; `tokens` and `weight` are [step], in stack order.
  void add(int row, int head, std::span<const std::int32_t> tokens, std::span<const float> weight);

  /// Fills in `weight_by_place`, after the last add().
  void transpose();
};

}  // namespace kvsim
