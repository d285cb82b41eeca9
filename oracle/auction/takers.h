#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "oracle/assignment/compact_sums.h"
#include "oracle/assignment/remaining_sums.h"
#include "sim/attention/eviction_steps.h"

namespace kvsim {

/// Who may take a token: every step that evicts, with as many units as it evicts, and, as the last
/// taker, what stays in the cache to the end, to which every token costs nothing. Each token goes
/// to exactly one taker, so that the prices of tokens may start anywhere.
class Takers {
 public:
  /// Takers of more units have their rows of costs in memory in either form, beside costs in 16
  /// bits at most n^2 / 32 bytes.
  static constexpr int kFewUnits = 63;

  /// Step t may take tokens 0 .. t - recent. `costs` has to outlive the object; recent < budget.
  Takers(const RemainingSums& costs, const EvictionSteps& steps, int budget, int recent);

  /// The same with costs in 16 bits: what follows from them is the same to the last bit.
  Takers(const CompactSums& costs, const EvictionSteps& steps, int budget, int recent);

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
  float cost(int taker, int token) const {
    return rows_[taker] != nullptr ? rows_[taker][token] : compact_->at(steps_[taker], token);
  }

  /// The costs of all tokens that the taker may take. In 16 bits only takers without few units have
  /// them.
  bool has_costs(int taker) const { return rows_[taker] != nullptr; }
  std::span<const float> costs(int taker) const { return {rows_[taker], num_choices(taker)}; }

  /// Calls `visit(taker, costs)` for every taker, the last first.
  void visit_costs(const std::function<void(int, std::span<const float>)>& visit) const;

  /// The costs in 16 bits; null if they are not.
  const CompactSums* compact() const { return compact_; }

  /// The sum of the costs of all tokens at their own steps.
  double total() const { return total_; }

  /// The mean of these costs, or 1 if it is 0: what differences are measured by, so that results do
  /// not depend on the unit of the losses.
  double scale() const { return total_ > 0 ? total_ / num_tokens_ : 1; }

 private:
  Takers(const RemainingSums* full, const CompactSums* compact, const EvictionSteps& steps,
         int budget, int recent);
  void find_rows();

  const RemainingSums* full_;
  const CompactSums* compact_;
  int num_tokens_;
  int recent_;
  std::vector<int> steps_;
  std::vector<int> units_;
  std::vector<const float*> rows_;  // per taker, in full_ or made_; or null
  std::map<int, std::shared_ptr<const std::vector<float>>> made_;  // by step
  double total_ = 0;
};

}  // namespace kvsim
