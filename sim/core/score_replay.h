#pragma once

#include "sim/core/configuration_replay.h"
#include "sim/core/retained_outputs.h"
#include "sim/core/slot_cache.h"
#include "sim/core/unit_record.h"

namespace kvsim {

/// A policy that follows a score rule and decides for one head: what PolicyReplay does for any
/// policy, by kernels over the block's shared weights.
class ScoreReplay final : public ConfigurationReplay {
 public:
  /// Whether it can replay a policy of these rules.
  static bool can_replay(const Rules& rules);

  /// Whether for that it gathers the weights of a cache's slots.
  static bool gathers(const Rules& rules);

  ScoreReplay(const Configuration& configuration, ReplayedUnit& unit, const ReplayOptions& options);

  void advance() override;
  void measure() override;
  std::vector<Outcome> finish() override;

 private:
  /// Attention of one query head to the slots, as a part of the mean: weight * scale.
  struct Paid {
    std::span<const float> weight;
    float scale;
  };

  void begin_block(const AttentionBlock& block);
  void sum_kept_weights(const AttentionBlock& block);
  void run_step(const AttentionBlock& block, int row);
  void score(const AttentionBlock& block, int row);
  Paid paid_by(const AttentionBlock& block, int head, int row);
  void note_loss(const AttentionBlock& block, int head, int row);
  void evict(const AttentionBlock& block, int row);
  bool is_missing_any(int step) const;
  std::span<const float> weights(const AttentionBlock& block, int head, int row) const;
  void rescue(const AttentionBlock& block, int head, int row);
  void spread_over_slots(const RescuedStep& rescued, std::span<const std::int32_t> tokens);

  ReplayedUnit& replayed_;
  Rules rules_;
  std::unique_ptr<Policy> policy_;
  int prompt_;  // the steps before this one attend in full and are not measured
  SlotCache cache_;
  UnitRecord record_;
  Holding& holding_;
  std::size_t peak_tokens_ = 0;
  std::vector<Measurement> pending_;    // [steps, heads] of the block, still without their errors
  MatrixDouble kept_;                   // [heads, kBlockSteps]: sums of the weights attended to
  std::vector<AlignedRows>& gathered_;  // per head: the weights of the slots, a row per step
  std::vector<float> attention_;        // mean over the heads, parallel to the slots
  std::vector<std::int32_t> listed_;    // tokens to sum over
  std::vector<float> own_weights_;      // of a rescued step, parallel to the slots
};

}  // namespace kvsim
