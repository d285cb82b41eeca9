#pragma once

#include <map>
#include <memory>
#include <optional>

#include "policies/interface/policy.h"
#include "policies/parts/quantization.h"
#include "sim/attention/attention.h"
#include "sim/outputs/retained_outputs.h"
#include "sim/outputs/score_gradients.h"
#include "sim/protocol/measured_steps.h"

namespace kvsim {

/// A unit with quantised keys and values, as a quantising cache reads them back, and the attention
/// to these keys.
struct StoredUnit {
  StoredUnit(const Unit& original, const Quantization& stored_as, const Backend& backend);

  /// Takes over rows first .. first + count - 1, which `original` has got since.
  void append(const Unit& original, int first, int count);

  Unit unit;
  Quantization quantization;
  std::unique_ptr<AttentionPass> pass;
  AttentionBlock block;
  std::size_t key_bytes = 0;    ///< stored, per token
  std::size_t value_bytes = 0;  ///< stored, per token
};

/// A unit under replay and the current block of full attention, which all configurations share.
/// A block that is not measured, for lack of a reference, has no attention. Not movable: passes and
/// replays refer to it.
class ReplayedUnit {
 public:
  ReplayedUnit(const Unit& unit, const Backend& backend, const Protocol& protocol);
  ReplayedUnit(const ReplayedUnit&) = delete;
  ReplayedUnit& operator=(const ReplayedUnit&) = delete;

  /// The quantised unit, made on the first call for a quantisation. compute() computes its block
  /// too.
  const StoredUnit& stored(const Quantization& quantization);

  /// Adds a cache whose output differences compute_outputs() computes. The reference stays valid.
  CacheContents& add_cache() { return retained_.add_cache(); }

  /// From now on, compute() fills in the outputs of blocks with measured errors, for replays that
  /// need them before compute_outputs().
  void require_outputs() { outputs_ = Outputs::required; }

  /// The unit has got rows first .. first + count - 1; its matrices may have more, without meaning.
  void append(int first, int count);

  /// Stored, per token; quantised where the rules say so.
  std::size_t bytes_per_token(const Rules& rules);

  /// Computes the block of steps first_step .. first_step + num_steps - 1, one of
  /// MeasuredSteps::together(). Reads the vectors of Unit::rows that it needs.
  void compute(int first_step, int num_steps);

  /// Computes the differences that the caches request, after all replays of the block.
  void compute_outputs() { retained_.compute(block_); }

  /// Scratch memory, one matrix per query head, for the replay that is running. All replays share
  /// it, so that it stays in the processor's cache.
  std::vector<AlignedRows>& scratch() { return scratch_; }

  const Unit& unit() const { return unit_; }
  const MeasuredSteps& steps() const { return steps_; }
  const Protocol& protocol() const { return steps_.protocol(); }
  bool takes_error(int step) const { return steps_.takes_error(step); }

  /// Recorded vectors of a token of the block, of any token unless the unit is read part by part.
  const float* query(int head, int token) const {
    return unit_.rows ? part_row(part_.query[head], token) : unit_.query[head].row(token).data();
  }
  const float* key(int token) const {
    return unit_.rows ? part_row(part_.key, token) : unit_.key.row(token).data();
  }
  const float* value(int token) const {
    return unit_.rows ? part_row(part_.value, token) : unit_.value.row(token).data();
  }

  const AttentionBlock& block() const { return block_; }

  /// Those of the block; null if the unit has none.
  const ScoreGradients* gradients() const { return gradients_ ? &*gradients_ : nullptr; }

 private:
  const float* part_row(const Matrix& rows, int token) const {
    return rows.row(token - part_.first).data();
  }

  const Unit& unit_;
  const Backend& backend_;
  MeasuredSteps steps_;
  UnitPart part_;                        // that holds the block, of Unit::rows
  std::unique_ptr<AttentionPass> pass_;  // null without a reference
  Outputs outputs_ = Outputs::optional;
  AttentionBlock block_;
  RetainedOutputs retained_;
  std::optional<ScoreGradients> gradients_;
  std::vector<AlignedRows> scratch_;
  std::map<std::pair<int, int>, std::unique_ptr<StoredUnit>> stored_;  // by bits and group
};

}  // namespace kvsim
