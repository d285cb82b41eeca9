#pragma once

#include "policies/interface/policy.h"
#include "sim/outputs/replayed_unit.h"
#include "sim/replay/metrics.h"
#include "sim/replay/replay.h"
#include "sim/replay/sampled_metrics.h"

namespace kvsim {

/// The use of one unit's cache over a replay.
struct CacheUsage {
  std::vector<std::int32_t> evicted_after;  ///< per token: the step after which it left; n: never
  std::size_t peak_tokens = 0;  ///< largest number after a measured step; of an estimator: vectors
  std::size_t peak_bytes = 0;   ///< largest size, as stored
  std::optional<std::int64_t> ties = {};  ///< evictions that equal scores decided
  bool is_set = true;                     ///< the cache is a set of tokens; not an estimator's
};

/// Collects the measurements of one configuration on one unit and turns them into its Outcome.
class UnitRecord {
 public:
  /// Steps that are not measured are not recorded.
  UnitRecord(const Unit& unit, const ReplayOptions& options);

  void add(int head, int step, Measurement measurement);

  /// Adds what `step` attends to, of a policy that selects; the steps before those
  /// attend to all tokens. Steps come in order.
  void add_selected(int step, std::span<const std::int32_t> tokens);

  /// Adds the steps of the unit's block that are measured, after filling in errors and bounds from
  /// the differences of `contents`. `pending` is [steps, heads].
  void add_block(const ReplayedUnit& unit, const CacheContents& contents,
                 std::span<Measurement> pending);

  /// The same for measurements that have errors and bounds.
  void add_block(const ReplayedUnit& unit, const OutputDeltas& deltas,
                 std::span<Measurement> pending);

  /// Without `has_bound` (replays that are not exact) the bound's columns are NULL. Without a
  /// reference, all columns that compare with it are NULL.
  Outcome finish(CacheUsage usage, bool has_bound) &&;

 private:
  /// Sums measurements that know whether they have errors, in this order.
  void sum(std::span<const Measurement> measurements);

  void set_trajectory(int head, int step, const Measurement& measurement);

  int num_tokens_;
  int group_size_;
  bool has_gradients_;
  MeasuredSteps steps_;
  bool keep_trajectory_;
  bool keep_selection_;
  Metrics metrics_;
  SampledMetrics sampled_;
  Trajectory trajectory_;
};

}  // namespace kvsim
