#pragma once

#include "sim/core/cache.h"
#include "sim/core/cached_attention.h"
#include "sim/core/metrics.h"
#include "sim/core/replay.h"

namespace kvsim {

/// One configuration on its way through one unit, fed block by block with the full attention that
/// it shares with the others.
class PolicyReplay {
 public:
  PolicyReplay(const Unit& unit, const Configuration& configuration, const ReplayOptions& options);

  /// The next block of steps.
  void advance(const AttentionBlock& block);

  /// After the last block.
  Outcome finish() &&;

 private:
  void run_step(const AttentionBlock& block, int row);
  void select(const AttentionBlock& block, int row);
  void attend(const AttentionBlock& block, int row, std::span<const std::int32_t> tokens);
  void average_full_attention(const AttentionBlock& block, int row);
  void update_scores(int step, std::span<const float> attention, int overflow);
  bool in_prompt(int step) const { return step + 1 < prompt_; }
  void record(int head, int step, const Measurement& measurement);

  const Unit& unit_;
  std::unique_ptr<Policy> policy_;
  Rules rules_;
  int budget_;
  Cache cache_;
  CachedAttention cached_;
  Metrics metrics_;
  bool keep_trajectory_;
  int prompt_;  // the steps before this one attend in full and are not measured
  std::size_t peak_tokens_ = 0;
  std::vector<float> attention_;       // group mean of p, parallel to the attended tokens
  std::vector<float> full_attention_;  // group mean of a, parallel to the cache's tokens
  Trajectory trajectory_;
};

}  // namespace kvsim
