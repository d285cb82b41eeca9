#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/interface/policy.h"
#include "sim/cache/cache.h"

namespace kvsim {

/// The scores that each KV head of a layer gives the tokens of a cache that all heads share, and
/// the joined scores by which it evicts.
class HeadScores {
 public:
  HeadScores() = default;
  HeadScores(std::size_t num_heads, JoinedScores joined) : joined_(joined), heads_(num_heads) {}

  /// The scores of a head, parallel to `tokens`, which are ascending: as stored, 0 for tokens that
  /// have arrived since. Valid until the next call.
  std::span<double> take(std::size_t head, std::span<const std::int32_t> tokens);

  /// Stores what take() gave.
  void store(std::size_t head, std::span<const std::int32_t> tokens);

  /// Sets the scores of the cache. With ranks those of tokens that are no candidates are 0.
  void join(Cache& cache);

 private:
  void join_ranks(Cache& cache) const;

  JoinedScores joined_ = JoinedScores::mean;
  std::vector<std::vector<double>> heads_;  // per head and text position
  std::vector<double> taken_;
};

}  // namespace kvsim
