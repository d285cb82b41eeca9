// The exact best eviction sequence for total attention recall: oracle/README.md.

#include <algorithm>
#include <map>

#include "oracle/eviction_assignment.h"
#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

/// The schedule if the newest tokens to keep fill the budget: the oldest token is always evicted.
Schedule window_schedule(const FutureAttention& attention, int budget) {
  Schedule schedule;
  for (int token = 0; token < attention.num_tokens(); ++token) {
    const int leaves = std::max(token + budget, attention.first_eviction());
    schedule.push_back(std::min(leaves, attention.num_tokens()));
  }
  return schedule;
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
          .source = "oracle/README.md; H2O section 2 doubts Belady's algorithm and gives none",
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
