#pragma once

#include <vector>

#include "oracle/remaining_attention.h"
#include "sim/core/planner.h"

namespace kvsim {

/// The exact optimum of total attention recall, as a minimum assignment of eviction steps to tokens
/// (oracle/README.md). Starts with room for every token; each call of lower_budget() inserts one
/// eviction by a shortest augmenting path, after which the assignment is optimal for the new
/// budget. Takes 2 n (n + 1) bytes beside the attention, and O(n²) time per budget at worst.
class EvictionAssignment {
 public:
  /// Step t may evict tokens 0 .. t - recent. `attention` has to outlive the object.
  EvictionAssignment(const FutureAttention& attention, int recent);

  /// Most tokens kept after a step, from num_tokens down.
  int budget() const { return budget_; }

  /// One token less. The budget must stay above 0 and at least `recent`.
  void lower_budget();

  /// Attention that falls on evicted tokens, summed over the measured steps, mean over query heads.
  double loss() const { return loss_; }

  Schedule schedule() const;

  /// Per step t: by how much the loss would fall if one token more could stay after step t, and
  /// only then. The dual of the row of step t is the worth of one more slot from t to the end; a
  /// price is the difference between neighbouring steps. 0 where the budget does not bind.
  std::vector<double> slot_prices() const;

  /// The duals: L(j,t) + token_price(j) >= step_price(t) for every step that may evict j, with
  /// equality where it does, and the loss is the sum of step prices less that of token prices.
  double token_price(int token) const { return token_price_[token]; }
  double step_price(int step) const;

  /// L(j,t): attention to token j at the measured steps after t.
  float cost(int token, int step) const { return remaining_.row(step)[token]; }

 private:
  /// Tokens 0 .. this less one may leave after the step.
  int num_candidates(int step) const { return step + 1 - recent_; }
  void search(int source);
  void scan(int step, double distance);
  void reach(int token, int step, double distance);
  void limit(int token, double distance);

  const FutureAttention& attention_;
  int recent_;
  int budget_;
  double loss_ = 0;
  RemainingAttention remaining_;     // the costs
  std::vector<int> step_of_;         // per token: the step that evicts it, or kNone
  std::vector<double> token_price_;  // 0 for tokens that stay

  // One search for a shortest path from a new step to a token that no step evicts.
  std::vector<double> distance_;    // per token; at least the shortest path found when not reached
  std::vector<double> slack_;       // distance less price; minus infinity once final
  std::vector<float> slack_above_;  // the same, rounded up
  std::vector<int> reached_from_;   // per token: the step before it on the path
  std::vector<int> evicts_;         // per step on a path: the token it gives up
  std::vector<char> is_scanned_;    // per step
  std::vector<int> final_tokens_;
  std::vector<std::pair<double, int>> queue_;  // a heap of distances and tokens
  double shortest_ = 0;                        // to a token that stays
  int end_ = 0;                                // that token
};

}  // namespace kvsim
