#pragma once

#include <memory>
#include <span>
#include <vector>

#include "oracle/assignment/remaining_sums.h"
#include "sim/protocol/eviction_steps.h"

namespace kvsim {

/// Who may take a token: every step that evicts, with as many units as it evicts, and, as the last
/// taker, what stays in the cache to the end, to which every token costs nothing. Each token goes
/// to exactly one taker, so that the prices of tokens may start anywhere.
class Takers {
 public:
  static constexpr int kFewUnits = 63;

  /// Step t may take tokens 0 .. t - recent. `costs` has to outlive the object; recent < budget.
  Takers(const RemainingSums& costs, const EvictionSteps& steps, int budget, int recent);

  /// The same with takers of at least `units` evictions each, all after the last of their steps: a
  /// smaller problem whose prices are similar.
  Takers merged(int units) const;

  int num_tokens() const { return num_tokens_; }
  int count() const { return static_cast<int>(units_.size()); }
  int stay() const { return count() - 1; }

  int units(int taker) const { return units_[taker]; }
  bool has_few_units(int taker) const { return taker != stay() && units_[taker] <= kFewUnits; }

  /// After which step the taker evicts its tokens; num_tokens() of what stays.
  int step(int taker) const { return steps_[taker]; }

  /// How many tokens the taker may take, which are the first ones of the text.
  std::size_t num_choices(int taker) const {
    const int end = taker == stay() ? num_tokens_ : steps_[taker] + 1 - recent_;
    return static_cast<std::size_t>(end);
  }

  /// The cost L(j,t) of a token j < num_choices(); 0 of what stays.
  float cost(int taker, int token) const { return rows_[taker][token]; }

  /// The costs of all tokens that the taker may take.
  std::span<const float> costs(int taker) const { return {rows_[taker], num_choices(taker)}; }

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
  std::vector<const float*> rows_;                  // per taker, in costs_ or free_
  std::shared_ptr<const std::vector<float>> free_;  // the costs of what stays
  double total_ = 0;
};

}  // namespace kvsim
