#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/interface/policy.h"
#include "sim/cache/cache.h"
#include "sim/cache/candidate_queue.h"
#include "sim/cache/page_candidates.h"
#include "sim/cache/token_set.h"
#include "sim/kernels/aligned_vector.h"
#include "sim/kernels/score_kernels.h"

namespace kvsim {

/// Like Cache, for policies that drop one token at a time and do not prune. An evicted token leaves
/// a gap with score kEvictedScore, so that kernels run over all slots without branches.
/// begin_block() closes the gaps once they are many. Scores that do not change after a token's
/// arrival need no kernels: a queue has their order.
class SlotCache {
 public:
  SlotCache(int num_tokens, int budget, const Rules& rules, const Paging& paging = {});

  /// Appends slots for tokens first .. first + count - 1; admit() puts them in use one by one.
  void begin_block(std::int32_t first, int count);

  /// Adds the next of these tokens.
  void admit();

  /// Updates the scores by the policy's rule after a step at which slot i gets attention
  /// weight[i] * scale. Not for rules of the kind `newest`: see newest_score().
  void score(const ScoredStep& step, std::span<const float> weight, float scale);

  /// The newest token, and its score.
  std::span<const std::int32_t> newest() const { return tokens().last(1); }
  std::span<double> newest_score() { return {scores_.data() + num_slots_ - 1, 1}; }

  /// If more than `most_held` tokens are held, evicts down to the budget after step `step`: the
  /// lowest scores first, the lower text position first among equals. Of pages, as many as needed.
  void evict(int step, int most_held = 0);

  int num_held() const { return num_held_; }
  const TokenSet& held() const { return held_; }
  /// Whether slot i is that of token i, for all slots.
  bool slots_are_tokens() const { return slots_are_tokens_; }

  /// The tokens of the slots in use, ascending, gaps included. block_slots() adds the slots of
  /// tokens that are still to arrive in the block.
  std::span<const std::int32_t> tokens() const { return {tokens_.data(), num_slots_}; }
  std::span<const std::int32_t> block_slots() const { return tokens_; }

  /// Evictions of this block, in the order of the steps.
  const std::vector<Eviction>& evictions() const { return evictions_; }

  /// Per token: the step after which it was evicted; num_tokens if it never was.
  const std::vector<std::int32_t>& evicted_after() const { return evicted_after_; }

  /// Evictions of tokens whose score equals that of a candidate that stayed.
  std::int64_t num_ties() const { return num_ties_; }

 private:
  std::size_t candidates_begin() const {
    return std::min(static_cast<std::size_t>(protection_.first), num_slots_);
  }
  std::size_t candidates_end() const {
    const std::size_t newest = std::min(static_cast<std::size_t>(protection_.newest), num_slots_);
    return std::max(candidates_begin(), num_slots_ - newest);
  }
  std::size_t most_slots() const;
  void close_gaps();
  bool has_fixed_scores() const { return rule_.kind == ScoreRule::Kind::newest; }
  bool marks_gaps() const { return rule_.kind == ScoreRule::Kind::attention; }
  void evict_queued(int count, int step);
  std::size_t slot_of(std::int32_t token);
  void evict_several(int count, int step);
  void evict_pages(int count, int step);
  void remove(std::size_t slot, int step);

  int budget_;
  ScoreRule rule_;
  Paging paging_;
  Protection protection_;
  int num_held_ = 0;
  std::size_t num_slots_ = 0;
  bool slots_are_tokens_ = true;
  std::vector<std::int32_t> tokens_;
  AlignedVector<double> scores_;
  AlignedVector<float> gaps_;  // per slot, for the rule `attention`: kEvictedScore for a gap, or 0
  TokenSet held_;
  LowestScore lowest_ = {};  // of the candidates, after score()
  CandidateQueue queue_;     // of fixed scores; slots from next_queued_ on are not in it
  std::size_t next_queued_;
  std::size_t next_leaving_ = 0;  // the slot after that of the last fixed score that was evicted
  std::vector<std::int32_t> evicted_after_;
  std::vector<Eviction> evictions_;
  std::int64_t num_ties_ = 0;
};

}  // namespace kvsim
