#pragma once

#include "policies/policy.h"
#include "sim/core/metrics.h"
#include "sim/core/replay.h"
#include "sim/core/retained_outputs.h"

namespace kvsim {

/// What a cache came to hold, for the record of one unit.
struct Holdings {
  std::vector<std::int32_t> evicted_after;  ///< per token: the step after which it left; n: never
  std::size_t peak_tokens = 0;              ///< after any measured step
  std::size_t peak_bytes = 0;
};

/// Collects what one configuration does to one unit.
class UnitRecord {
 public:
  /// Steps before `first_measured` are not in the record.
  UnitRecord(const Unit& unit, int first_measured, const ReplayOptions& options);

  void add(int head, int step, Measurement measurement);

  /// The measured steps of a block, whose errors and bounds follow from the holding's differences.
  /// `pending` is [steps, heads].
  void add_block(const AttentionBlock& block, const Holding& holding,
                 std::span<Measurement> pending);

  /// Without a bound, as for what is not exact, its columns do not apply. Without a reference
  /// nothing has been added, and no column that compares with it applies.
  Outcome finish(Holdings holdings, bool has_bound) &&;

 private:
  bool takes_error(int step) const { return measuring_.takes_error(step, num_tokens_); }

  int num_tokens_;
  int first_measured_;
  bool keep_trajectory_;
  Measuring measuring_;
  Metrics metrics_;
  Trajectory trajectory_;
};

}  // namespace kvsim
