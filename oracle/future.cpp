// Evicts the token with the least attention still to come. Not optimal, because it ignores how long
// a token must be kept to receive that attention.

#include "oracle/assignment/remaining_sums.h"
#include "oracle/simulation.h"
#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class LeastRemaining final : public EvictionRule {
 public:
  explicit LeastRemaining(const RemainingSums& remaining) : remaining_(remaining) {}

  void arrive(int) override {}
  double loss(int token, int step) override { return remaining_.row(step)[token]; }

 private:
  const RemainingSums& remaining_;
};

class FutureOracle final : public HeadPlanner {
 public:
  std::vector<Plan> plan_head(const Future& head, std::span<const int> budgets) const override {
    const FutureAttention& attention = head.attention();
    const RemainingSums remaining(attention);
    std::vector<Plan> plans;
    for (const int budget : budgets) {
      LeastRemaining rule(remaining);
      plans.push_back({.schedule = simulate(attention, budget, rule)});
    }
    return plans;
  }
};

}  // namespace

PolicyInfo future_oracle() {
  return {.name = "future",
          .keeps = "the tokens with the most attention still to come",
          .source = "oracle/README.md",
          .sees = "the attention of the whole text",
          .differences = "no bound: lru can beat it",
          .params = {},
          .make_planner = [](const Params&) -> std::unique_ptr<Planner> {
            return std::make_unique<FutureOracle>();
          },
          .plans_pages = always_plans_pages,
          .make = make_scheduled};
}

}  // namespace kvsim
