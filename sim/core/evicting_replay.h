#pragma once

#include "sim/core/cache.h"
#include "sim/core/cached_attention.h"
#include "sim/core/metrics.h"
#include "sim/core/replay.h"

namespace kvsim {

/// One configuration on its way through one unit, fed block by block with the full attention that
/// it shares with the others.
class EvictingReplay {
 public:
  EvictingReplay(const Unit& unit, const Configuration& configuration,
                 const ReplayOptions& options);

  /// The next block of steps.
  void advance(const AttentionBlock& block);

  /// After the last block.
  Outcome finish() &&;

 private:
  void run_step(const AttentionBlock& block, int row);
  void attend(const AttentionBlock& block, int row);
  void record(int head, int step, const Measurement& measurement);

  const Unit& unit_;
  std::unique_ptr<Policy> policy_;
  Rules rules_;
  Cache cache_;
  CachedAttention cached_;
  Metrics metrics_;
  bool keep_trajectory_;
  int prompt_;  // the steps before this one attend in full and are not measured
  std::size_t peak_tokens_ = 0;
  std::vector<float> attention_;       // group mean of p, parallel to the cache's tokens
  std::vector<float> full_attention_;  // group mean of a
  Trajectory trajectory_;
};

}  // namespace kvsim
