#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cache/budget_stack.h"
#include "sim/protocol/paging.h"

namespace kvsim {

/// The caches of all budgets of a policy with nested caches, which evict whole pages: a BudgetStack
/// of pages, as one order of tokens. For the proof see sim/curve/README.md. With pages of one token
/// it is the BudgetStack of tokens.
class PageStack {
 public:
  /// Uses only Rules::protect_first and Rules::protect_newest.
  PageStack(int num_tokens, const Rules& rules, const Paging& paging);

  /// All tokens that have arrived, [step + 1]. With pages of several tokens: those of the newest
  /// token's page, which every cache holds, then page after page.
  std::span<const std::int32_t> order() const {
    return paging_.is_by_token() ? pages_.order() : order_;
  }

  /// The place of order()[0]. Places are counted as if the newest token's page were complete, so
  /// the cache of budget B holds what is at the places below B.
  int first_place() const {
    return (paging_.size - static_cast<int>(order().size()) % paging_.size) % paging_.size;
  }

  /// Adds the next token, order().size(). If it begins a page, each full cache evicts its lowest
  /// candidate. `scores` has one entry per token, the new one included.
  void push(std::span<const double> scores);

  /// Fills an empty stack with all tokens of `scores`, as at the end of a prompt. Each cache evicts
  /// its lowest candidates down to its budget.
  void fill(std::span<const double> scores);

 private:
  void score_pages(std::span<const double> scores);
  void arrange(std::int32_t newest);

  Paging paging_;
  int protect_newest_;  // tokens
  BudgetStack pages_;   // without regard to the newest token's page, which has no place there
  std::vector<double> page_scores_;
  std::vector<std::int32_t> order_;  // of tokens; empty with pages of one
};

}  // namespace kvsim
