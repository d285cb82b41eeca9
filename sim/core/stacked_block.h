#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/attention.h"

namespace kvsim {

/// The steps of a block, each with the tokens that were there before it in the order of a
/// BudgetStack: budget B holds the first B of them and the step's own.
struct StackedBlock {
  /// Of one query head.
  struct Head {
    BlockMatrix weight;    ///< exp(l - max l), [steps, places]; 0 beyond the order
    AlignedRows by_place;  ///< its transpose, [places, kBlockSteps]; see arrange()
  };

  std::vector<std::vector<std::int32_t>> order;  ///< per row: [step]; empty if it is not measured
  std::vector<Head> heads;

  /// All steps of `block`, none of them measured.
  void reset(const AttentionBlock& block);

  void add(int row, int head, std::span<const std::int32_t> tokens, std::span<const float> weight);

  /// Fills in `by_place`, once all steps are there.
  void arrange();
};

}  // namespace kvsim
