#include "sim/sweep/planned_budgets.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "sim/replay/bytes_budget.h"

namespace kvsim {
namespace {

/// Whether the budget of one layer says what others keep.
bool joins_layers(const Spec& policy) {
  return policy.allocation() != Allocation::uniform ||
         policy.rules({.budget = 1}).scope == Scope::model;
}

}  // namespace

std::shared_ptr<const BudgetTable> PlannedBudgets::of(const Trace& trace,
                                                      const SelectedUnit& unit) {
  auto budgets = table(unit.num_tokens, unit.prompt_length, unit.vectors);
  check_layers(trace, unit, *budgets);
  return budgets;
}

std::shared_ptr<const BudgetTable> PlannedBudgets::table(int num_tokens, int prompt_length,
                                                         const VectorShape& vectors) {
  auto& found = tables_[{num_tokens, prompt_length, vectors.head_dim, vectors.value_dim,
                         vectors.key_bytes, vectors.value_bytes}];
  if (found) return found;
  BudgetTable budgets;
  for (const Amount& amount : request_.budgets) {
    std::vector<int>& of_amount = budgets.emplace_back();
    for (const Spec& policy : request_.policies) {
      of_amount.push_back(
          budget_of(amount, policy, vectors, request_.protocol, num_tokens, prompt_length));
    }
  }
  return found = std::make_shared<const BudgetTable>(std::move(budgets));
}

void PlannedBudgets::check_layers(const Trace& trace, const SelectedUnit& unit,
                                  const BudgetTable& budgets) {
  for (std::size_t amount = 0; amount < request_.budgets.size(); ++amount) {
    if (!request_.budgets[amount].is_bytes()) continue;
    for (std::size_t i = 0; i < request_.policies.size(); ++i) {
      if (!joins_layers(request_.policies[i])) continue;
      for (const LayerInfo& layer : sequence_info(trace, unit.name).layers) {
        if (layer.kv_from) continue;
        const auto other = table(unit.num_tokens, unit.prompt_length, vectors_of(layer));
        if ((*other)[amount][i] == budgets[amount][i]) continue;
        throw UsageError(fmt::format(
            "budget {}: {} has one budget for all layers; expected as many tokens in each, found "
            "{} in layer {} and {} in layer {}, whose vectors take other bytes; give tokens",
            request_.budgets[amount].written(), request_.policies[i].text(), budgets[amount][i],
            unit.name.layer, (*other)[amount][i], layer.index));
      }
    }
  }
}

}  // namespace kvsim
