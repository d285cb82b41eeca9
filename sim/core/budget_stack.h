#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/policy.h"

namespace kvsim {

/// The caches of all budgets of one policy whose caches nest (PolicyInfo::nests), as
/// one order of the tokens so far: the cache of B tokens holds the first B. A stack in the sense of
/// Mattson et al. 1970, section "Stack algorithms"; sim/core/curve.md says why it is right.
class BudgetStack {
 public:
  /// Of the rules only how many first and newest tokens are protected matters.
  BudgetStack(int num_tokens, const Rules& rules);

  /// All tokens that have arrived, [step + 1]. The place of a token never falls.
  std::span<const std::int32_t> order() const { return order_; }

  /// The next token, order().size(), arrives, and each cache that is then too full lets its lowest
  /// candidate go. `scores` has one entry per token, that one included.
  void push(std::span<const double> scores);

  /// All tokens of `scores` are there at once, as at the end of a prompt, and each cache that is
  /// too small lets its lowest candidates go. For an empty stack.
  void fill(std::span<const double> scores);

 private:
  void sink(std::int32_t token, std::span<const double> scores);

  std::size_t protect_first_;
  std::size_t protect_newest_;
  std::vector<std::int32_t> order_;  // protected first ones, newest ones from the last back, others
  std::vector<double> score_;        // parallel to order_, during a step
};

}  // namespace kvsim
