// The exact best eviction sequence for total attention recall: oracle/README.md.

#include <algorithm>
#include <map>

#include "oracle/eviction_assignment.h"
#include "oracle/simulation.h"
#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

/// What remains if the newest tokens to keep fill the budget.
class OldestFirst final : public EvictionRule {
 public:
  void arrive(int) override {}
  double loss(int token, int) override { return token; }
};

Schedule window_schedule(const FutureAttention& attention, int budget) {
  OldestFirst rule;
  return simulate(attention, budget, rule);
}

// The steps that evict are not those of the next larger budget and one more, so each budget has an
// assignment of its own.
Schedule schedule_with_interval(const FutureAttention& attention, int budget, int recent) {
  EvictionAssignment assignment(attention, recent);
  const std::vector<int> evictions = attention.num_evictions(budget);
  for (int step = attention.num_tokens() - 1; step >= 0; --step) {
    for (int count = evictions[step]; count > 0; --count) assignment.add_eviction(step);
  }
  return assignment.schedule();
}

class Optimal final : public Planner {
 public:
  explicit Optimal(const Params& params) : params_(params) {}

  std::vector<Plan> plan(const FutureAttention& attention,
                         std::span<const int> budgets) const override {
    std::vector<Plan> plans(budgets.size());
    std::map<int, std::vector<std::size_t>> by_recent;  // one pass serves all budgets of a key
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      const int recent = params_.amount("recent", budgets[i]);
      if (recent >= budgets[i]) {
        plans[i].schedule = window_schedule(attention, budgets[i]);
      } else if (attention.eviction_interval() != 1) {
        plans[i].schedule = schedule_with_interval(attention, budgets[i], recent);
      } else {
        by_recent[recent].push_back(i);
      }
    }
    for (auto& [recent, members] : by_recent) {
      std::sort(members.begin(), members.end(),
                [&](std::size_t a, std::size_t b) { return budgets[a] > budgets[b]; });
      EvictionAssignment assignment(attention, recent);
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

}  // namespace

PolicyInfo optimal_oracle() {
  return {.name = "optimal",
          .keeps = "what loses the least attention, all later steps considered",
          .source = "oracle/README.md; H2O section 3.2 doubts Belady's algorithm and gives none",
          .sees = "the attention of the whole text",
          .differences = "best in attention retained, not in output error",
          .params = {Param::amount("recent", "0", "newest tokens that always stay")},
          .make_planner = [](const Params& params) -> std::unique_ptr<Planner> {
            return std::make_unique<Optimal>(params);
          },
          .bounds_recall = [](const Params& params) { return params.amount("recent", 1) == 0; },
          .plans_every_budget = [](const Params& params) { return !params.is_share("recent"); },
          .make = make_scheduled};
}

}  // namespace kvsim
