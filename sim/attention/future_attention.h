#pragma once

#include <span>
#include <vector>

#include "sim/attention/attention.h"
#include "sim/attention/step_rows.h"

namespace kvsim {

/// Writes a[t,0] .. a[t,t] of step t = block.first_step + row, averaged over the query heads of the
/// block, into `mean` [t + 1].
void group_mean(const AttentionBlock& block, int row, std::span<float> mean);

/// The full attention matrix of a unit, averaged over its query heads: row t is a[t,0] .. a[t,t].
/// Only oracles may see it.
class FutureAttention : public StepRows {
 public:
  FutureAttention(const Unit& unit, const EvictionSteps& steps, const Backend& backend);

  /// From given attention: rows[t] is a[t,0] .. a[t,t].
  explicit FutureAttention(const std::vector<std::vector<float>>& rows)
      : FutureAttention(rows, 0, {}) {}
  FutureAttention(const std::vector<std::vector<float>>& rows, int prompt_length,
                  const Protocol& protocol);
};

/// The steps of a unit under a protocol.
EvictionSteps eviction_steps(const Unit& unit, const Protocol& protocol);

}  // namespace kvsim
