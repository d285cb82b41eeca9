#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// What the budgets of a request come to, found once for all units of one length and shape.
class PlannedBudgets {
 public:
  /// Keeps a reference to `request`.
  explicit PlannedBudgets(const SweepRequest& request) : request_(request) {}

  /// The budgets of a unit of `trace`. Throws UsageError as budget_of(), and for a size where a
  /// policy decides for, or an allocation splits over, layers in which it is another number of
  /// tokens.
  std::shared_ptr<const BudgetTable> of(const Trace& trace, const SelectedUnit& unit);

 private:
  // Tokens, prompt; of keys and values: dimensions, bytes per number.
  using Key = std::tuple<int, int, int, int, int, int>;

  std::shared_ptr<const BudgetTable> table(int num_tokens, int prompt_length,
                                           const VectorShape& vectors);
  void check_layers(const Trace& trace, const SelectedUnit& unit, const BudgetTable& budgets);

  const SweepRequest& request_;
  std::map<Key, std::shared_ptr<const BudgetTable>> tables_;
};

}  // namespace kvsim
