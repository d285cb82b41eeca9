#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/protocol/eviction_steps.h"

namespace kvsim {

/// What a unit's tokens receive after they have arrived, n tokens. The *later steps* of token j are
/// the measured steps s > j: its own step is none of them, and in prefill mode no step of the
/// prompt.
struct AttentionLabels {
  std::vector<double> future_attention;         ///< [n], a[s,j] summed over the later steps s
  std::vector<double> future_attention_blocks;  ///< [num_blocks, n], row after row
  std::vector<std::int32_t> next_access;        ///< [n], steps; n: never
};

/// Collects the labels from rows of full attention, one step at a time, so that the matrix need not
/// be there as a whole.
class AttentionLabeller {
 public:
  /// A block is `block` measured steps, at least 1, the first one from the first measured step on;
  /// the last may be shorter.
  AttentionLabeller(const EvictionSteps& steps, int block);

  int num_blocks() const;

  /// Adds a[step,0] .. a[step,step], the mean over the group. Each step once, in order; steps that
  /// are not measured may be left out.
  void add(int step, std::span<const float> attention);

  /// The labels of all steps added. Row b of the blocks is the mean of a[s,j] over the steps s of
  /// block b, where steps up to j count as 0: the rows times their steps add up to the future
  /// attention. An access is a[s,j] > 1/(s+1), as for `belady`.
  AttentionLabels finish() &&;

 private:
  int steps_in_block(int index) const;

  EvictionSteps steps_;
  int block_;
  AttentionLabels labels_;
};

}  // namespace kvsim
