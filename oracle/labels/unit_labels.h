#pragma once

#include <span>
#include <vector>

#include "oracle/labels/attention_labels.h"
#include "sim/replay/planner.h"

namespace kvsim {

/// What learned policies train on, of one unit (README.md).
struct UnitLabels {
  AttentionLabels attention;
  int num_blocks = 0;
  std::vector<Plan> optimal;  ///< per budget: when `optimal` lets each token go, and slot prices
};

/// Labels a unit at these budgets, in tokens, each at least 1; see AttentionLabeller for `block`.
/// With budgets it takes what `optimal` does, 6 n (n + 1) bytes and O(n³) time; without budgets it
/// holds one block of attention in addition to the labels. Throws Interrupted.
UnitLabels label_unit(const Future& unit, std::span<const int> budgets, int block);

}  // namespace kvsim
