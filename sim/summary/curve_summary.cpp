#include "sim/summary/curve_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ostream>

#include "sim/protocol/budget.h"
#include "sim/results/table.h"
#include "sim/summary/open_loop.h"
#include "sim/summary/short_spec.h"

namespace kvsim {
namespace {

constexpr std::array kPercents = {1, 2, 5, 10, 15, 20, 30, 40, 50, 60, 80, 100};

/// The index of the budget that such a share of the text is.
std::size_t index_of(int percent, const Curve& curve, Protocol protocol, int num_tokens) {
  const Amount share = Amount::parse(fmt::format("{}%", percent), "budget");
  protocol.mode = Mode::stream;  // also after a prompt the share is of the text
  const int budget = budget_of(share, protocol, num_tokens, 0);
  const auto at = std::lower_bound(curve.budgets.begin(), curve.budgets.end() - 1, budget);
  return static_cast<std::size_t>(at - curve.budgets.begin());
}

}  // namespace

void CurveSummary::add(const CurvePlan& plan, const PlannedUnit& unit,
                       const std::vector<Curve>& curves) {
  std::vector<std::vector<double>>& recall = recall_[&unit];
  for (const Curve& curve : curves) {
    std::vector<double>& of_policy = recall.emplace_back();
    for (const int percent : kPercents) {
      const std::size_t i =
          index_of(percent, curve, plan.sweep.request.protocol, unit.unit.num_tokens);
      of_policy.push_back(1 - curve.attention_loss[i]);
    }
  }
}

void CurveSummary::write(std::ostream& out, const CurvePlan& plan) const {
  const Paging& paging = plan.sweep.request.protocol.paging;
  out << fmt::format(
      "attention recall by budget, in percent of the tokens{}; means over {} units\n\n",
      paging.is_by_token() ? "" : fmt::format(" as whole pages of {}", paging.size),
      recall_.size());
  Table table{{"policy"}, {}};
  for (const int percent : kPercents) table.columns.push_back(fmt::format("{}%", percent));
  const std::vector<Spec>& policies = plan.sweep.request.policies;
  for (std::size_t policy = 0; policy < policies.size(); ++policy) {
    std::vector<Value>& row = table.rows.emplace_back();
    row.emplace_back(name_in_tables(policies[policy]));
    for (std::size_t i = 0; i < kPercents.size(); ++i) {
      double sum = 0;
      for (const auto& [unit, recall] : recall_) sum += recall[policy][i];
      row.emplace_back(sum / static_cast<double>(recall_.size()));
    }
  }
  write_aligned(out, table);
  const std::string labels = legend(policies);
  const std::string notes = labels + (policies.size() > 1 ? kOpenLoop : "");
  if (!notes.empty()) out << '\n' << notes;
}

}  // namespace kvsim
