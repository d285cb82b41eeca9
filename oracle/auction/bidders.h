#pragma once

#include <memory>
#include <span>
#include <vector>

#include "oracle/assignment/remaining_sums.h"
#include "sim/protocol/eviction_steps.h"

namespace kvsim {

/// Who may take a token: every step that evicts, with as many units as it evicts, and, as the last
/// bidder, what stays in the cache to the end, to which every token costs nothing. Each token goes
/// to exactly one bidder, so that the prices of tokens may start anywhere.
class Bidders {
 public:
  static constexpr int kFewUnits = 63;

  /// Step t may take tokens 0 .. t - recent. `costs` has to outlive the object; recent < budget.
  Bidders(const RemainingSums& costs, const EvictionSteps& steps, int budget, int recent);

  /// The same with bidders of at least `units` evictions each, all after the last of their steps: a
  /// smaller problem whose prices are similar.
  Bidders merged(int units) const;

  int num_tokens() const { return num_tokens_; }
  int count() const { return static_cast<int>(units_.size()); }
  int stay() const { return count() - 1; }

  int units(int bidder) const { return units_[bidder]; }
  bool has_few_units(int bidder) const { return bidder != stay() && units_[bidder] <= kFewUnits; }

  /// After which step the bidder evicts its tokens; num_tokens() of what stays.
  int step(int bidder) const { return steps_[bidder]; }

  /// How many tokens the bidder may take, which are the first ones of the text.
  std::size_t num_choices(int bidder) const {
    const int end = bidder == stay() ? num_tokens_ : steps_[bidder] + 1 - recent_;
    return static_cast<std::size_t>(end);
  }

  /// The cost L(j,t) of a token j < num_choices(); 0 of what stays.
  float cost(int bidder, int token) const { return rows_[bidder][token]; }

  /// The costs of all tokens that the bidder may take.
  std::span<const float> costs(int bidder) const { return {rows_[bidder], num_choices(bidder)}; }

  /// The sum of the costs of all tokens at their own steps.
  double total() const { return total_; }

  /// The mean of these costs, or 1 if it is 0: what differences are measured by, so that results do
  /// not depend on the unit of the losses.
  double scale() const { return total_ > 0 ? total_ / num_tokens_ : 1; }

 private:
  void find_rows();

  const RemainingSums* costs_;
  int num_tokens_;
  int recent_;
  std::vector<int> steps_;
  std::vector<int> units_;
  std::vector<const float*> rows_;                  // per bidder, in costs_ or free_
  std::shared_ptr<const std::vector<float>> free_;  // the costs of what stays
  double total_ = 0;
};

}  // namespace kvsim
