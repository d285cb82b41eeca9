#pragma once

#include <map>
#include <memory>

#include "policies/interface/policy.h"
#include "policies/parts/quantization.h"
#include "sim/attention/attention.h"
#include "sim/outputs/measure_options.h"
#include "sim/outputs/retained_outputs.h"

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
/// Without a reference the block has no heads. Not movable: passes and replays refer to it.
class ReplayedUnit {
 public:
  ReplayedUnit(const Unit& unit, const Backend& backend, const MeasureOptions& measuring = {});
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

  /// Computes the block of steps first_step .. first_step + num_steps - 1.
  void compute(int first_step, int num_steps);

  /// Computes the differences that the caches request, after all replays of the block.
  void compute_outputs() { retained_.compute(block_); }

  /// Scratch memory, one matrix per query head, for the replay that is running. All replays share
  /// it, so that it stays in the processor's cache.
  std::vector<AlignedRows>& scratch() { return scratch_; }

  const Unit& unit() const { return unit_; }
  bool has_reference() const { return measuring_.has_reference(); }
  bool takes_error(int step) const { return measuring_.takes_error(step, unit_.num_tokens()); }
  const AttentionBlock& block() const { return block_; }

 private:
  const Unit& unit_;
  const Backend& backend_;
  MeasureOptions measuring_;
  std::unique_ptr<AttentionPass> pass_;  // null without a reference
  Outputs outputs_ = Outputs::optional;
  AttentionBlock block_;
  RetainedOutputs retained_;
  std::vector<AlignedRows> scratch_;
  std::map<std::pair<int, int>, std::unique_ptr<StoredUnit>> stored_;  // by bits and group
};

}  // namespace kvsim
