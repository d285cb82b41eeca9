#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "policies/interface/policy.h"
#include "sim/cache/page_candidates.h"

namespace kvsim {

/// A token and the step after which it was evicted.
struct Eviction {
  std::int32_t token;
  std::int32_t step;
};

/// The length of a text that is still being written.
inline constexpr int kUnknownLength = std::numeric_limits<int>::max();

/// The tokens that one KV cache holds, with the scores of its policy. Tokens enter only by admit(),
/// in text order, so an evicted token cannot return.
class Cache {
 public:
  /// A cache of at most `budget` tokens over a sequence of `num_tokens`, or kUnknownLength. With
  /// pages of several tokens whole pages leave.
  Cache(int num_tokens, int budget, const Rules& rules, const Paging& paging = {});

  /// Adds `token`, which is later in the text than all before, with score 0.
  void admit(std::int32_t token);

  /// The number of tokens to evict now: 0 while at most `most_held` tokens are held, else the
  /// smallest multiple of the policy's drop that leaves the budget, limited to the candidates. Of
  /// pages, those that fit in such a multiple, and as many as leave the budget.
  /// `leaving` tokens, which are removed in any case, do not count.
  int overflow(int most_held = 0, int leaving = 0) const;

  /// Evicts the `count` candidates with the lowest scores after step `step`, the lower text
  /// position first among equals. If the policy prunes, evicts at least all candidates with
  /// score -infinity; a page, if all its tokens have it.
  void evict(int count, int step);

  /// The slots whose tokens may be evicted, ascending.
  std::vector<std::size_t> candidates() const;

  /// Evicts those of `tokens` that the cache holds, protected or not, after step `step`.
  void remove(const std::vector<std::int32_t>& tokens, int step);

  /// Selects the newest token and `count` older ones, ascending: protected tokens first, then the
  /// highest scores, the higher text position first among equals.
  std::vector<std::int32_t> select(int count) const;

  std::span<const std::int32_t> tokens() const { return tokens_; }  ///< ascending
  std::span<double> scores() { return scores_; }                    ///< parallel to tokens()

  /// Evictions since begin_block(), in the order of the steps.
  void begin_block() { evictions_.clear(); }
  const std::vector<Eviction>& evictions() const { return evictions_; }

  /// Per admitted token: the step after which it was evicted; num_tokens if it never was.
  const std::vector<std::int32_t>& evicted_after() const { return evicted_after_; }

  /// Evictions by evict() of tokens whose score equals that of a candidate that stayed.
  std::int64_t num_ties() const { return num_ties_; }

 private:
  void evict_lowest(int step);
  void evict_several(int count, int step);
  void evict_pages(int count, int step);
  int overflow_of_pages(int excess) const;
  std::vector<PageCandidate> pages() const;
  void close_gaps(int step);
  int num_pruned() const;
  void record_eviction(std::int32_t token, int step);
  std::size_t candidates_begin() const { return protection_.first; }
  std::size_t candidates_end() const { return tokens_.size() - protection_.newest; }

  int num_tokens_;
  int budget_;
  Paging paging_;
  Protection protection_;
  int drop_;
  bool prunes_;
  std::vector<std::int32_t> tokens_;
  std::vector<double> scores_;
  std::vector<std::int32_t> evicted_after_;
  std::vector<Eviction> evictions_;
  std::int64_t num_ties_ = 0;
};

}  // namespace kvsim
