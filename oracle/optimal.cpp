// The exact best eviction sequence for losses that add up over missing tokens: oracle/README.md.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "oracle/assignment/assignment_plans.h"
#include "oracle/auction/auction_plan.h"
#include "oracle/page_schedule.h"
#include "oracle/side_by_side.h"
#include "oracle/simulation.h"
#include "oracle/step_losses.h"
#include "policies/interface/policy_info.h"
#include "sim/base/errors.h"
#include "sim/protocol/budget.h"

namespace kvsim {
namespace {

// From here on an auction per budget takes less time than the pass that finds all of them, for a
// few budgets. How many are asked for must not count, or a row would depend on the others.
constexpr int kAuctionFrom = 512;

bool by_auction(const EvictionSteps& steps) { return steps.num_tokens() >= kAuctionFrom; }

// Costs are rounded to single precision, by less than this share.
constexpr double kUnrounded = 1 - 0x1p-23;

/// The costs L(j,t) of one unit.
using Costs = std::shared_ptr<const RemainingSums>;

/// What remains if the newest tokens to keep fill the budget.
class OldestFirst final : public EvictionRule {
 public:
  void arrive(int) override {}
  double loss(int token, int) override { return token; }
};

/// Where the newest tokens to keep fill the budget, there is no choice.
CertifiedPlan only_plan(const EvictionSteps& steps, const Costs& costs, int budget) {
  OldestFirst rule;
  CertifiedPlan plan{.schedule = simulate(steps, budget, rule)};
  for (int token = 0; token < steps.num_tokens(); ++token) {
    const int leaves = plan.schedule[token];
    if (leaves < steps.num_tokens()) plan.loss += double{costs->row(leaves)[token]};
  }
  plan.bound = plan.loss;
  return plan;
}

/// The sum of the costs of all tokens at their own steps.
double total_cost(const RemainingSums& costs, int num_tokens) {
  double total = 0;
  for (int step = 0; step < num_tokens; ++step) total += double{costs.row(step)[step]};
  return total;
}

// Costs do not rise with the step, so that one that is not finite is in the sum.
void check_finite(const Future& head, const RemainingSums& costs, const std::string& cost) {
  const double total = total_cost(costs, head.num_tokens());
  if (std::isfinite(total)) return;
  const UnitName& name = head.unit().name;
  throw DataError(fmt::format(
      "sequence {} layer {} KV head {}: optimal expected finite losses with cost={}, found a sum "
      "of {}; look for numbers too large in the trace, or choose another cost",
      name.sequence, name.layer, name.kv_head, cost, total));
}

void check_proven(const EvictionSteps& steps, double total, const CacheSize& cache,
                  const CertifiedPlan& plan) {
  if (is_proven(plan, total)) return;
  throw UnprovenOptimum(fmt::format(
      "optimal at a budget of {} of {} tokens: expected a bound of {:.17g}, proved {:.17g}; please "
      "report this, with the trace",
      cache.budget, steps.num_tokens(), plan.loss, plan.bound));
}

/// The places of caches that lack a plan, in groups that one pass plans together.
std::vector<std::vector<std::size_t>> left_to_pass(
    const EvictionSteps& steps, std::span<const CacheSize> caches,
    std::span<const std::optional<CertifiedPlan>> plans) {
  std::map<std::size_t, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < caches.size(); ++i) {
    if (plans[i]) continue;
    const auto recent = static_cast<std::size_t>(caches[i].recent);
    groups[steps.protocol().evicts_every_step() ? recent : i].push_back(i);
  }
  std::vector<std::vector<std::size_t>> places;
  for (auto& [key, group] : groups) places.push_back(std::move(group));
  return places;
}

std::vector<CertifiedPlan> plan_by_auction(const Future& head, const EvictionSteps& steps,
                                           const Costs& costs, std::span<const CacheSize> caches) {
  std::vector<std::optional<CertifiedPlan>> plans(caches.size());
  side_by_side(caches.size(), head.planning_threads(), head.interrupted(), [&](std::size_t i) {
    plans[i] = auction_plan(Bidders(*costs, steps, caches[i].budget, caches[i].recent), steps);
  });
  const auto left = left_to_pass(steps, caches, plans);
  side_by_side(left.size(), head.planning_threads(), head.interrupted(), [&](std::size_t group) {
    std::vector<CacheSize> of_group;
    for (const std::size_t i : left[group]) of_group.push_back(caches[i]);
    std::vector<CertifiedPlan> found = assignment_plans(steps, costs, of_group, true);
    for (std::size_t i = 0; i < found.size(); ++i) plans[left[group][i]] = std::move(found[i]);
  });
  const double total = total_cost(*costs, steps.num_tokens());
  std::vector<CertifiedPlan> proven;
  for (std::size_t i = 0; i < caches.size(); ++i) {
    check_proven(steps, total, caches[i], *plans[i]);
    proven.push_back(std::move(*plans[i]));
  }
  return proven;
}

/// `steps` are those of the head, or of its pages.
std::vector<CertifiedPlan> plan_few(const Future& head, const EvictionSteps& steps,
                                    const Costs& costs, std::span<const CacheSize> caches) {
  return by_auction(steps) ? plan_by_auction(head, steps, costs, caches)
                           : assignment_plans(steps, costs, caches, true);
}

std::vector<CertifiedPlan> plan_all(const Future&, const EvictionSteps& steps, const Costs& costs,
                                    std::span<const CacheSize> caches) {
  return assignment_plans(steps, costs, caches, false);
}

class Optimal final : public HeadPlanner {
 public:
  explicit Optimal(const Params& params) : params_(params) {}

  std::vector<Plan> plan_head(const Future& head, std::span<const int> budgets) const override {
    const StepLosses losses(head, loss_of(params_));
    const auto found = plan_losses(plan_few, head, losses.rows(), budgets);
    std::vector<Plan> plans;
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      const bool of_every_policy = recent_of(budgets[i]) == 0;
      plans.push_back(
          {.schedule = found[i].schedule,
           .slot_price = found[i].slot_price,
           .proof = losses.proof(found[i].loss, found[i].bound * kUnrounded, of_every_policy)});
    }
    return plans;
  }

  // Without proofs, which are of one unit.
  std::vector<Plan> plan_shared(std::span<const Future> layer,
                                std::span<const int> budgets) const override {
    StepRows sums(layer.front());
    for (const Future& head : layer) {
      const StepLosses losses(head, loss_of(params_));
      for (int step = 0; step < sums.num_tokens(); ++step) {
        const std::span<const float> row = losses.rows().row(step);
        std::transform(row.begin(), row.end(), sums.row(step).begin(), sums.row(step).begin(),
                       std::plus<>());
      }
    }
    std::vector<Plan> plans;
    for (CertifiedPlan& plan : plan_losses(plan_few, layer.front(), sums, budgets)) {
      plans.push_back({.schedule = std::move(plan.schedule)});
    }
    return plans;
  }

  std::vector<Plan> plan_every_budget(const Future& head) const override {
    const StepLosses losses(head, loss_of(params_));
    const std::vector<int> budgets = every_budget(head.protocol(), head.num_tokens());
    std::vector<Plan> plans;
    for (CertifiedPlan& plan : plan_losses(plan_all, head, losses.rows(), budgets)) {
      plans.push_back({.schedule = std::move(plan.schedule)});
    }
    return plans;
  }

 private:
  template <class Solve>
  std::vector<CertifiedPlan> plan_losses(const Solve& solve, const Future& head,
                                         const StepRows& losses,
                                         std::span<const int> budgets) const {
    const Costs costs = std::make_shared<const RemainingSums>(losses);
    check_finite(head, *costs, params_.choice("cost"));
    const bool by_token = head.protocol().paging.is_by_token();
    return by_token ? plan_with(solve, head, costs, budgets)
                    : plan_pages(solve, head, *costs, budgets);
  }

  // The pages of a text are the tokens of a shorter one, whose newest never leaves.
  template <class Solve>
  static std::vector<CertifiedPlan> plan_pages(const Solve& solve, const Future& head,
                                               const RemainingSums& of_tokens,
                                               std::span<const int> budgets) {
    const PageSteps pages(head);
    const Costs costs = std::make_shared<const RemainingSums>(of_tokens, pages);
    std::vector<CacheSize> caches;
    for (const int budget : budgets) caches.push_back({budget / pages.page_size(), 1});
    std::vector<CertifiedPlan> plans = solve(head, pages.steps(), costs, caches);
    for (CertifiedPlan& plan : plans) {
      plan.schedule = page_schedule(plan.schedule, pages, head.num_tokens());
      plan.slot_price.clear();  // a slot alone is no page
    }
    return plans;
  }

  int recent_of(int budget) const { return params_.amount("recent", budget); }

  template <class Solve>
  std::vector<CertifiedPlan> plan_with(const Solve& solve, const Future& head, const Costs& costs,
                                       std::span<const int> budgets) const {
    std::vector<CertifiedPlan> plans(budgets.size());
    std::vector<CacheSize> caches;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      const int recent = recent_of(budgets[i]);
      if (recent >= budgets[i]) {
        plans[i] = only_plan(head, costs, budgets[i]);
      } else {
        caches.push_back({budgets[i], recent});
        places.push_back(i);
      }
    }
    std::vector<CertifiedPlan> solved = solve(head, head, costs, caches);
    for (std::size_t i = 0; i < places.size(); ++i) plans[places[i]] = std::move(solved[i]);
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
          .plans_pages = [](const Params& params) { return params.amount("recent", 1) == 0; },
          .plans_shared = true,
          .auction_from = kAuctionFrom,
          .joint_planning_cost =
              [](const Params&, const UnitSizes& unit, std::int64_t budget) {
                const auto evictions =
                    std::clamp<std::int64_t>(unit.tokens - budget, 0, unit.steps);
                return unit.tokens * evictions * evictions / 8;
              },
          .needs = loss_needs,
          .make = make_scheduled};
}

}  // namespace kvsim
