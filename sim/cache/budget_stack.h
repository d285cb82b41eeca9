#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/interface/policy.h"

namespace kvsim {

/// The caches of all budgets of a policy with nested caches (PolicyInfo::nests), as one order of
/// the tokens: the cache of budget B holds the first B. A stack algorithm (Mattson et al. 1970,
/// section "Stack algorithms"); for the proof see sim/curve/README.md.
class BudgetStack {
 public:
  /// Uses only Rules::protect_first and Rules::protect_newest.
  BudgetStack(int num_tokens, const Rules& rules);

  /// All tokens that have arrived, [step + 1]. A token never moves to a lower place.
  std::span<const std::int32_t> order() const { return order_; }

  /// Adds the next token, order().size(). Each cache above its budget evicts its lowest candidate.
  /// `scores` has one entry per token, the new one included.
  void push(std::span<const double> scores);

  /// Fills an empty stack with all tokens of `scores`, as at the end of a prompt. Each cache evicts
  /// its lowest candidates down to its budget.
  void fill(std::span<const double> scores) { fill(scores, protect_newest_); }

  /// The same where only the `protect_newest` newest tokens may not leave, at most as many as by
  /// the rules.
  void fill(std::span<const double> scores, std::size_t protect_newest);

 private:
  void push_down(std::int32_t token, std::span<const double> scores);

  std::size_t protect_first_;
  std::size_t protect_newest_;
  std::vector<std::int32_t> order_;  // first tokens, newest tokens in descending order, others
  std::vector<double> score_;        // parallel to order_, during a step
};

}  // namespace kvsim
