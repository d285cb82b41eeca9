// Evicts the token with the least attention still to come. Not optimal, because it ignores how long
// a token must be kept to receive that attention.

#include "oracle/remaining_attention.h"
#include "oracle/simulation.h"
#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class LeastRemaining final : public EvictionRule {
 public:
  explicit LeastRemaining(const RemainingAttention& remaining) : remaining_(remaining) {}

  void arrive(int) override {}
  double loss(int token, int step) override { return remaining_.row(step)[token]; }

 private:
  const RemainingAttention& remaining_;
};

class Future final : public Planner {
 public:
  std::vector<Plan> plan(const FutureAttention& attention,
                         std::span<const int> budgets) const override {
    const RemainingAttention remaining(attention);
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
            return std::make_unique<Future>();
          },
          .make = make_scheduled};
}

}  // namespace kvsim
