#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/policy.h"

namespace kvsim {

/// A token that left a cache after a step.
struct Departure {
  std::int32_t token;
  std::int32_t step;
};

/// The tokens that one evicting KV cache holds, with the score its policy gives each. The only way
/// in is to arrive and the only way out is to be evicted, so an evicted token cannot return.
class Cache {
 public:
  /// A cache of at most `budget` tokens over a sequence of `num_tokens`.
  Cache(int num_tokens, int budget, const Rules& rules);

  /// Token `token`, later than all before, arrives with score 0.
  void admit(std::int32_t token);

  /// How many tokens leave now: none while the budget holds, else as many times the policy's drop
  /// as it takes, or all candidates if they are fewer. `leaving` tokens are going to be removed in
  /// any case and do not count.
  int overflow(int leaving = 0) const;

  /// Evicts the `count` candidates with the lowest scores, the lower text position first among
  /// equals, after step `step`; more if the policy prunes more.
  void evict(int count, int step);

  /// Evicts those of `tokens` that are here, protected or not, after step `step`.
  void remove(const std::vector<std::int32_t>& tokens, int step);

  /// The newest token and the `count` older ones with the highest scores, the higher text position
  /// first among equals and protected ones before all others; ascending.
  std::vector<std::int32_t> select(int count) const;

  std::span<const std::int32_t> tokens() const { return tokens_; }  ///< ascending
  std::span<double> scores() { return scores_; }                    ///< parallel to tokens()

  /// What has left since begin_block(), in order of the steps.
  void begin_block() { departures_.clear(); }
  const std::vector<Departure>& departures() const { return departures_; }

  /// Per token: the step after which it left; num_tokens for one that never did.
  const std::vector<std::int32_t>& evicted_after() const { return evicted_after_; }

 private:
  void evict_lowest(int step);
  void evict_several(int count, int step);
  int num_pruned() const;
  void leave(std::int32_t token, int step);
  std::size_t candidates_begin() const { return protect_first_; }
  std::size_t candidates_end() const { return tokens_.size() - protect_newest_; }

  int budget_;
  int protect_first_;
  int protect_newest_;
  int drop_;
  bool prunes_;
  std::vector<std::int32_t> tokens_;
  std::vector<double> scores_;
  std::vector<std::int32_t> evicted_after_;
  std::vector<Departure> departures_;
};

}  // namespace kvsim
