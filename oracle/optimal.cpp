// The exact best eviction sequence for losses that add up over missing tokens: oracle/README.md.

#include <algorithm>
#include <map>

#include "oracle/eviction_assignment.h"
#include "oracle/simulation.h"
#include "oracle/step_losses.h"
#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

/// What remains if the newest tokens to keep fill the budget.
class OldestFirst final : public EvictionRule {
 public:
  void arrive(int) override {}
  double loss(int token, int) override { return token; }
};

Schedule window_schedule(const EvictionSteps& steps, int budget) {
  OldestFirst rule;
  return simulate(steps, budget, rule);
}

// The steps that evict are not those of the next larger budget and one more, so each budget has an
// assignment of its own.
Schedule schedule_with_interval(const StepRows& losses, int budget, int recent) {
  EvictionAssignment assignment(losses, recent);
  const std::vector<int> evictions = losses.num_evictions(budget);
  for (int step = losses.num_tokens() - 1; step >= 0; --step) {
    for (int count = evictions[step]; count > 0; --count) assignment.add_eviction(step);
  }
  return assignment.schedule();
}

class Optimal final : public HeadPlanner {
 public:
  explicit Optimal(const Params& params) : params_(params) {}

  std::vector<Plan> plan_head(const Future& head, std::span<const int> budgets) const override {
    const StepLosses losses(head, loss_of(params_));
    std::vector<Plan> plans(budgets.size());
    std::map<int, std::vector<std::size_t>> by_recent;  // one pass serves all budgets of a key
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      const int recent = params_.amount("recent", budgets[i]);
      if (recent >= budgets[i]) {
        plans[i].schedule = window_schedule(head, budgets[i]);
      } else if (head.eviction_interval() != 1) {
        plans[i].schedule = schedule_with_interval(losses.rows(), budgets[i], recent);
      } else {
        by_recent[recent].push_back(i);
      }
    }
    for (auto& [recent, members] : by_recent) {
      std::sort(members.begin(), members.end(),
                [&](std::size_t a, std::size_t b) { return budgets[a] > budgets[b]; });
      EvictionAssignment assignment(losses.rows(), recent);
      for (const std::size_t i : members) {
        while (assignment.budget() > budgets[i]) assignment.lower_budget();
        plans[i].schedule = assignment.schedule();
        plans[i].slot_price = assignment.slot_prices();
      }
    }
    return plans;
  }

 private:
  Params params_;
};

std::vector<Param> params() {
  std::vector<Param> params = loss_params();
  params.insert(params.begin(), Param::amount("recent", "0", "newest tokens that always stay"));
  return params;
}

}  // namespace

PolicyInfo optimal_oracle() {
  return {.name = "optimal",
          .keeps = "what costs the least to miss, all later steps considered; by default attention",
          .source = "oracle/README.md; H2O section 3.2 doubts Belady's algorithm and gives none",
          .sees = "the attention of the whole text; for other costs values, outputs and gradients",
          .differences = "best in what adds up over missing tokens; errors of outputs do not",
          .params = params(),
          .make_planner = [](const Params& params) -> std::unique_ptr<Planner> {
            return std::make_unique<Optimal>(params);
          },
          .bounds_recall =
              [](const Params& params) {
                return params.amount("recent", 1) == 0 && loss_of(params).bounds_recall();
              },
          .plans_every_budget = [](const Params& params) { return !params.is_share("recent"); },
          .needs = loss_needs,
          .make = make_scheduled};
}

}  // namespace kvsim
