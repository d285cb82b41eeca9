// The exact best eviction sequence for losses that add up over missing tokens: oracle/README.md.

#include <fmt/format.h>

#include <map>
#include <memory>
#include <numeric>

#include "oracle/assignment/assignment_plans.h"
#include "oracle/auction/auction_plan.h"
#include "oracle/simulation.h"
#include "oracle/step_losses.h"
#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

// From here on an auction per budget takes less time than the pass that finds all of them.
constexpr int kAuctionTokens = 1536;

// Costs are rounded to single precision, by less than this share.
constexpr double kUnrounded = 1 - 0x1p-23;

/// What remains if the newest tokens to keep fill the budget.
class OldestFirst final : public EvictionRule {
 public:
  void arrive(int) override {}
  double loss(int token, int) override { return token; }
};

/// Where the newest tokens to keep fill the budget, there is no choice.
CertifiedPlan only_plan(const EvictionSteps& steps, const RemainingSums& costs, int budget) {
  OldestFirst rule;
  CertifiedPlan plan{.schedule = simulate(steps, budget, rule)};
  for (int token = 0; token < steps.num_tokens(); ++token) {
    const int leaves = plan.schedule[token];
    if (leaves < steps.num_tokens()) plan.loss += double{costs.row(leaves)[token]};
  }
  plan.bound = plan.loss;
  return plan;
}

/// The least loss at budgets of the same `recent`, less than each of them.
std::vector<CertifiedPlan> least_losses(const EvictionSteps& steps,
                                        const std::shared_ptr<const RemainingSums>& costs,
                                        std::span<const int> budgets, int recent) {
  if (steps.num_tokens() < kAuctionTokens) {
    return assignment_plans(steps, costs, budgets, recent, true);
  }
  std::vector<CertifiedPlan> plans;
  for (const int budget : budgets) {
    const Takers takers(*costs, steps, budget, recent);
    auto plan = auction_plan(takers, steps);
    if (!plan) plan = assignment_plans(steps, costs, {&budget, 1}, recent, true).front();
    if (!is_proven(*plan, takers.total())) {
      throw UnprovenOptimum(fmt::format(
          "optimal at a budget of {} of {} tokens: expected a bound of {:.17g}, proved {:.17g}; "
          "please report this, with the trace",
          budget, steps.num_tokens(), plan->loss, plan->bound));
    }
    plans.push_back(std::move(*plan));
  }
  return plans;
}

class Optimal final : public HeadPlanner {
 public:
  explicit Optimal(const Params& params) : params_(params) {}

  std::vector<Plan> plan_head(const Future& head, std::span<const int> budgets) const override {
    return plan_by(least_losses, head, budgets, true);
  }

  std::vector<Plan> plan_every_budget(const Future& head) const override {
    std::vector<int> budgets(head.num_tokens());
    std::iota(budgets.begin(), budgets.end(), 1);
    const auto one_pass = [](const EvictionSteps& steps, const auto& costs, auto of, int recent) {
      return assignment_plans(steps, costs, of, recent, false);
    };
    return plan_by(one_pass, head, budgets, false);
  }

 private:
  template <class Solve>
  std::vector<Plan> plan_by(const Solve& solve, const Future& head, std::span<const int> budgets,
                            bool proves) const {
    const StepLosses losses(head, loss_of(params_));
    const auto costs = std::make_shared<const RemainingSums>(losses.rows());
    std::vector<CertifiedPlan> found(budgets.size());
    std::map<int, std::vector<std::size_t>> by_recent;
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      const int recent = params_.amount("recent", budgets[i]);
      if (recent >= budgets[i]) {
        found[i] = only_plan(head, *costs, budgets[i]);
      } else {
        by_recent[recent].push_back(i);
      }
    }
    for (const auto& [recent, members] : by_recent) {
      std::vector<int> of_members;
      for (const std::size_t i : members) of_members.push_back(budgets[i]);
      std::vector<CertifiedPlan> plans = solve(head, costs, of_members, recent);
      for (std::size_t m = 0; m < members.size(); ++m) found[members[m]] = std::move(plans[m]);
    }
    std::vector<Plan> plans(budgets.size());
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      plans[i] = {std::move(found[i].schedule), std::move(found[i].slot_price), {}};
      if (!proves) continue;
      const bool of_every_policy = params_.amount("recent", budgets[i]) == 0;
      plans[i].proof = losses.proof(found[i].loss, found[i].bound * kUnrounded, of_every_policy);
    }
    return plans;
  }

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
