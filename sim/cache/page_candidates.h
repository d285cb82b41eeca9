#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/interface/policy.h"
#include "sim/protocol/paging.h"

namespace kvsim {

/// Which tokens a cache may not evict.
struct Protection {
  int first = 0;   ///< the first tokens of the text
  int newest = 0;  ///< the newest tokens

  /// Of a cache of `budget` tokens by these rules. What is protected is limited to the budget: the
  /// first tokens take precedence over the newest. Under pages these are whole pages, with one left
  /// for the token that arrives.
  static Protection of(const Rules& rules, int budget, const Paging& paging);
};

/// The score of a page from those of its tokens, at least one; infinity if one has it and the rule
/// is the mean.
double page_score(std::span<const double> scores, PageScore rule);

/// A page that a cache may evict: the slots of its tokens, and its score.
struct PageCandidate {
  std::size_t begin;
  std::size_t end;
  double score;
  bool is_pruned;  ///< the policy prunes, and scored all its tokens minus infinity
};

/// The pages that are complete, do not hold the newest token and hold no protected one, in text
/// order. Slots are those of `tokens`, ascending and not empty, which hold whole pages up to the
/// newest token's. `scores` is parallel. `prunes`: Rules::prunes.
std::vector<PageCandidate> page_candidates(std::span<const std::int32_t> tokens,
                                           std::span<const double> scores, const Paging& paging,
                                           const Protection& protection, bool prunes);

/// Takes the candidates that leave, in the order in which they do: those pruned, then the lowest
/// until there are `count`, the lower page first among equals. Returns how many of them equal
/// scores decided.
std::size_t take_lowest(std::vector<PageCandidate>& candidates, std::size_t count);

}  // namespace kvsim
