#pragma once

#include "sim/cache/slot_cache.h"
#include "sim/outputs/retained_outputs.h"
#include "sim/protocol/eviction_steps.h"
#include "sim/replay/configuration_replay.h"
#include "sim/replay/unit_record.h"

namespace kvsim {

/// Replays a policy with a score rule on one head: the result of PolicyReplay, computed by vector
/// kernels over the block's shared weights.
class ScoreReplay final : public ConfigurationReplay {
 public:
  /// Whether it can replay a policy with these rules.
  static bool can_replay(const Rules& rules);

  /// Whether its replay of such a policy gathers the weights of the cache's slots.
  static bool gathers(const Rules& rules);

  ScoreReplay(const Configuration& configuration, ReplayedUnit& unit, const ReplayOptions& options);

  void advance() override;
  void measure() override;
  std::vector<const OutputDeltas*> deltas() const override { return {&contents_.deltas}; }
  std::vector<Outcome> finish() override;

 private:
  /// One query head's share of the mean attention to the slots: weight * scale.
  struct SlotAttention {
    std::span<const float> weight;
    float scale;
  };

  void begin_block(const AttentionBlock& block);
  void sum_kept_weights(const AttentionBlock& block);
  void run_step(const AttentionBlock& block, int row);
  void score(const AttentionBlock& block, int row);
  SlotAttention attention_of(const AttentionBlock& block, int head, int row);
  void record_loss(const AttentionBlock& block, int head, int row);
  void evict(const AttentionBlock& block, int row, int most);
  bool is_missing_any(int step) const;
  std::span<const float> weights(const AttentionBlock& block, int head, int row) const;
  void rescale(const AttentionBlock& block, int head, int row);
  void set_rescaled_weights(const RescaledStep& rescaled, std::span<const std::int32_t> tokens);

  ReplayedUnit& replayed_;
  Rules rules_;
  std::unique_ptr<Policy> policy_;
  EvictionSteps steps_;
  int budget_;
  SlotCache cache_;
  UnitRecord record_;
  CacheContents& contents_;
  std::size_t peak_tokens_ = 0;
  std::vector<Measurement> pending_;  // [steps, heads] of the block, without errors yet
  // [heads, kBlockSteps]: sums of the weights of the cache's tokens and the sink
  MatrixDouble kept_weight_sums_;
  std::vector<AlignedRows>& gathered_;       // per head: weights, [kBlockSteps, slots]
  std::vector<float> attention_;             // mean over the heads, parallel to the slots
  std::vector<std::int32_t> tokens_to_sum_;  // scratch of sum_kept_weights()
  std::vector<float> rescaled_weights_;      // of one rescaled step, parallel to the slots
};

}  // namespace kvsim
