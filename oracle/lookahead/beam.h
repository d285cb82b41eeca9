#pragma once

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "oracle/lookahead/lookahead_cache.h"

namespace kvsim {

/// The best caches of one unit at one budget, valued by the loss of the steps so far and of the
/// window to come. One cache evicts the token without which the window loses least; several are
/// extended by each of their tokens, and the best that hold different tokens go on. The lower text
/// position is evicted first among equals.
class Beam {
 public:
  /// `evictions` as from EvictionSteps::num_evictions(). `cache` has its cost, which can be copied
  /// if `width` is above 1.
  Beam(std::unique_ptr<LookaheadCache> cache, std::vector<int> evictions, std::size_t width);

  int first_eviction() const { return caches_.front().cache->first_eviction(); }
  void receive(const AttentionBlock& block);

  /// Evicts after `step`. To be called for every step from the first eviction on.
  void evict(int step);

  /// That of the cache with the least loss of all steps that evict() was called for.
  const Schedule& schedule() const;

 private:
  struct Entry {
    std::unique_ptr<LookaheadCache> cache;
    double loss_so_far = 0;
    std::uint64_t left = 0;  ///< a digest of the tokens that have left
  };
  struct Candidate {
    double loss;
    int token;
    std::size_t entry;
    std::size_t slot;
    bool operator<(const Candidate& other) const {
      return std::tie(loss, token, entry) < std::tie(other.loss, other.token, other.entry);
    }
  };

  void evict_one(int step);
  std::vector<Candidate> candidates(int step);

  std::vector<int> evictions_;
  std::size_t width_;
  std::vector<Entry> caches_;  // the best first
};

}  // namespace kvsim
