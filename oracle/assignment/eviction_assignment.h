#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "oracle/assignment/distance_queue.h"
#include "oracle/assignment/remaining_sums.h"
#include "sim/replay/planner.h"

namespace kvsim {

/// The least sum of losses that add up over missing tokens, exactly, as a minimum assignment of
/// eviction steps to tokens (oracle/README.md). Starts without evictions, which is a budget of all
/// tokens; each eviction is inserted by a shortest augmenting path, after which the assignment is
/// optimal for those inserted so far. With an eviction interval of 1 each call of lower_budget()
/// inserts what the next smaller budget evicts; otherwise use add_eviction(), from the last step to
/// the first. Takes 2 n (n + 1) bytes for the costs, and O(n²) time per budget at worst.
class EvictionAssignment {
 public:
  /// Row t of `losses` is what step t loses without token j, at least 0: of FutureAttention, the
  /// optimum is that of total recall. Step t may evict tokens 0 .. t - recent. `losses` has to
  /// outlive the object.
  EvictionAssignment(const StepRows& losses, int recent);

  /// The same from costs that others use as well.
  EvictionAssignment(const EvictionSteps& steps, std::shared_ptr<const RemainingSums> costs,
                     int recent);

  /// Most tokens kept after a step; num_tokens at first.
  int budget() const { return budget_; }

  /// Lowers the budget by one token. It must stay above 0 and at least `recent`.
  void lower_budget();

  /// Inserts one eviction after `step`, which may evict several tokens.
  void add_eviction(int step);

  /// The losses of evicted tokens, summed over the measured steps after they left.
  double loss() const { return loss_; }

  Schedule schedule() const;

  /// After lower_budget(): per step t, the price of a slot from step t to the next: at least 0, and
  /// 0 where the budget does not bind. The prices from any step t to the end add up to exactly the
  /// loss that one more slot after every step from t on would save; all prices, to what budget + 1
  /// would save. One more slot after step t alone saves at most its price, and one fewer costs at
  /// least its price.
  std::vector<double> slot_prices() const;

  /// The duals: L(j,t) + token_price(j) >= step_price(t) for every step that may evict j, with
  /// equality where it does, and the loss is the sum of the step prices less the sum of the token
  /// prices. These are the least such prices, because each search raises them only as far as
  /// necessary. So step_price(t) is the loss that would be saved if step t evicted nothing, which
  /// is one more slot from t to the end. It never increases with t, and slot prices are its
  /// differences.
  double token_price(int token) const { return token_price_[token]; }
  double step_price(int step) const;

  /// L(j,t): what the measured steps after t lose without token j.
  float cost(int token, int step) const { return costs_->row(step)[token]; }

  /// The sum of the step prices of all inserted evictions less that of the token prices, from the
  /// least value of every step over all its tokens: no assignment of these evictions costs less.
  double dual_bound() const;

 private:
  /// The step may evict tokens 0 .. num_candidates(step) - 1.
  int num_candidates(int step) const { return step + 1 - recent_; }
  void start(int source);
  void scan(int step, double distance);
  void reach(int token, int step, double distance);
  void limit(int token, double distance);
  void augment(int source);

  EvictionSteps steps_;
  std::shared_ptr<const RemainingSums> costs_;
  int recent_;
  int budget_;
  double loss_ = 0;
  std::vector<int> step_of_;         // per token: the step that evicts it, or kNone
  std::vector<double> token_price_;  // 0 for tokens that stay

  // The state of one search for a shortest path from a new step to a token that no step evicts.
  DistanceQueue queue_;                          // tokens that a step evicts
  std::vector<std::pair<int, double>> settled_;  // taken from the queue, with their distances
  std::vector<float> slack_;  // per token: distance less price, rounded up; settled: -infinity
  std::vector<std::int32_t> improved_;  // scratch of scan(): tokens
  std::vector<int> reached_from_;       // per token: the previous step on the path
  std::vector<int> released_token_;     // per scanned step: its token, which another step takes
  std::vector<int> scanned_;            // steps
  std::vector<char> is_scanned_;        // per step
  double shortest_ = 0;                 // to a token that stays
  int end_ = 0;                         // that token
};

}  // namespace kvsim
