#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/policy.h"
#include "sim/core/cache.h"
#include "sim/core/token_set.h"

namespace kvsim {

/// A cache as Cache is, for policies that drop one token at a time and prune none. What leaves
/// remains as a gap, scored kGone, until a block of steps begins with more gaps than tokens:
/// kernels run over slots without asking which are gaps.
class SlotCache {
 public:
  SlotCache(int num_tokens, int budget, const Rules& rules);

  /// Makes slots for the tokens first .. first + count - 1, which are about to arrive one by one.
  void begin_block(std::int32_t first, int count);

  /// The next of them arrives.
  void admit();

  /// Scores what is held by the policy's rule, after a step at which slot i is paid
  /// weight[i] * scale of attention. Not for a rule that scores only what is new: see newest().
  void score(const ScoredStep& step, std::span<const float> weight, float scale);

  /// The token that has just arrived, and its score.
  std::span<const std::int32_t> newest() const { return tokens().last(1); }
  std::span<double> newest_score() { return {scores_.data() + num_slots_ - 1, 1}; }

  /// Evicts down to the budget, the lowest scores first, the lower text position among equals,
  /// after step `step`.
  void evict(int step);

  /// How many tokens leave if evict() is called now.
  int overflow() const { return num_held_ > budget_ ? num_held_ - budget_ : 0; }

  int num_held() const { return num_held_; }
  const TokenSet& held() const { return held_; }
  /// Whether slot i is that of token i.
  bool slots_are_tokens() const { return slots_are_tokens_; }

  /// Of the slots in use, ascending by token; those of all that arrive in the block for
  /// `block_slots`.
  std::span<const std::int32_t> tokens() const { return {tokens_.data(), num_slots_}; }
  std::span<const std::int32_t> block_slots() const { return tokens_; }

  /// What has left in this block, in order of the steps.
  const std::vector<Departure>& departures() const { return departures_; }

  /// Per token: the step after which it left; num_tokens for one that never did.
  const std::vector<std::int32_t>& evicted_after() const { return evicted_after_; }

 private:
  std::size_t candidates_begin() const { return std::min(protect_first_, num_slots_); }
  std::size_t candidates_end() const {
    return std::max(candidates_begin(), num_slots_ - std::min(protect_newest_, num_slots_));
  }
  void close_gaps();
  std::size_t find_lowest();
  void remove(std::size_t slot, int step);

  int budget_;
  ScoreRule rule_;
  std::size_t protect_first_;
  std::size_t protect_newest_;
  std::size_t most_slots_per_token_;
  int num_held_ = 0;
  std::size_t num_slots_ = 0;
  bool slots_are_tokens_ = true;
  std::vector<std::int32_t> tokens_;
  std::vector<double> scores_;
  TokenSet held_;
  std::size_t lowest_ = 0;         // of the candidates, as last scored
  std::vector<double> group_low_;  // per group of slots whose scores stay: no score in it is lower
  std::vector<std::int32_t> evicted_after_;
  std::vector<Departure> departures_;
};

}  // namespace kvsim
