// Belady's algorithm (1966): evicts the token whose next access lies farthest in the future. An
// access is more than an even share of the attention, as for lru and lfu on full attention.

#include <algorithm>

#include "oracle/simulation.h"
#include "policies/interface/policy_info.h"
#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

class FarthestAccess final : public EvictionRule {
 public:
  explicit FarthestAccess(const FutureAttention& attention)
      : never_(attention.num_tokens()),
        accesses_(attention.num_tokens()),
        next_(attention.num_tokens(), 0) {
    for (int step = 0; step < attention.num_tokens(); ++step) {
      poll_interrupt();
      const std::span<const float> row = attention.row(step);
      const float even_share = 1 / static_cast<float>(step + 1);
      for (int token = 0; token <= step; ++token) {
        if (row[token] > even_share) accesses_[token].push_back(step);
      }
    }
  }

  void arrive(int) override {}

  // A page is accessed with any of its tokens.
  double loss_of_page(int first, int count, int step) override {
    double nearest = -never_;
    for (int token = first; token < first + count; ++token) {
      nearest = std::max(nearest, loss(token, step));
    }
    return nearest;
  }

  double loss(int token, int step) override {
    const std::vector<int>& accesses = accesses_[token];
    std::size_t& next = next_[token];
    while (next < accesses.size() && accesses[next] <= step) ++next;
    return -(next < accesses.size() ? accesses[next] : never_);
  }

 private:
  int never_;                               // later than every access
  std::vector<std::vector<int>> accesses_;  // per token, ascending
  std::vector<std::size_t> next_;           // per token: its first access still to come
};

class Belady final : public HeadPlanner {
 public:
  std::vector<Plan> plan_head(const Future& head, std::span<const int> budgets) const override {
    const FutureAttention& attention = head.attention();
    const FarthestAccess accesses(attention);
    std::vector<Plan> plans;
    for (const int budget : budgets) {
      FarthestAccess rule = accesses;
      plans.push_back({.schedule = simulate(attention, budget, rule)});
    }
    return plans;
  }
};

}  // namespace

PolicyInfo belady_oracle() {
  return {.name = "belady",
          .keeps = "the tokens that are accessed again soonest",
          .source = "Belady 1966; H2O section 3.2",
          .sees = "the attention of the whole text",
          .differences = "no bound: a miss here has no fixed cost and nothing comes back",
          .params = {},
          .make_planner = [](const Params&) -> std::unique_ptr<Planner> {
            return std::make_unique<Belady>();
          },
          .plans_pages = always_plans_pages,
          .make = make_scheduled};
}

}  // namespace kvsim
