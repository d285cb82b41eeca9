#pragma once

#include <map>
#include <memory>

#include "policies/quantization.h"
#include "sim/core/attention.h"
#include "sim/core/measuring.h"
#include "sim/core/retained_outputs.h"

namespace kvsim {

/// A unit as a cache that quantises keeps it: keys and values as their stored forms read back, and
/// the attention to such keys.
struct StoredUnit {
  StoredUnit(const Unit& original, const Quantization& quantization, const Backend& backend);

  Unit unit;
  std::unique_ptr<AttentionPass> pass;
  AttentionBlock block;
  std::size_t key_bytes = 0;    ///< of one token's key
  std::size_t value_bytes = 0;  ///< of one token's value
};

/// A unit under replay with the block of full attention that its configurations share at the
/// moment; without a reference, a block that has no heads. Does not move: passes and replays refer
/// to it.
class ReplayedUnit {
 public:
  ReplayedUnit(const Unit& unit, const Backend& backend, const Measuring& measuring = {});
  ReplayedUnit(const ReplayedUnit&) = delete;
  ReplayedUnit& operator=(const ReplayedUnit&) = delete;

  /// The stored form, made on the first call for a quantisation; it takes part in compute() from
  /// then on.
  const StoredUnit& stored(const Quantization& quantization);

  /// A cache whose outputs are computed together with those of others, by compute_outputs().
  Holding& add_holding() { return retained_.add_holding(); }

  /// compute() gives the outputs of blocks with errors to take at once, for replays that cannot
  /// wait for compute_outputs().
  void need_outputs() { outputs_ = Outputs::now; }

  /// Steps first_step .. first_step + num_steps - 1 of all attention.
  void compute(int first_step, int num_steps);

  /// The differences that holdings ask for, after all replays have gone through the block.
  void compute_outputs() { retained_.compute(block_); }

  /// A matrix per query head for whoever advances at the moment: shared, so that it stays in the
  /// processor's own memory.
  std::vector<AlignedRows>& scratch() { return scratch_; }

  const Unit& unit() const { return unit_; }
  bool has_reference() const { return measuring_.has_reference(); }
  bool takes_error(int step) const { return measuring_.takes_error(step, unit_.num_tokens()); }
  const AttentionBlock& block() const { return block_; }

 private:
  const Unit& unit_;
  const Backend& backend_;
  Measuring measuring_;
  std::unique_ptr<AttentionPass> pass_;  // null without a reference
  Outputs outputs_ = Outputs::can_wait;
  AttentionBlock block_;
  RetainedOutputs retained_;
  std::vector<AlignedRows> scratch_;
  std::map<std::pair<int, int>, std::unique_ptr<StoredUnit>> stored_;  // by bits and group
};

}  // namespace kvsim
