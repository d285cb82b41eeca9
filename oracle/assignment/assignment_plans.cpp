#include "oracle/assignment/assignment_plans.h"

#include <algorithm>
#include <numeric>

#include "oracle/assignment/eviction_assignment.h"

namespace kvsim {
namespace {

CertifiedPlan plan_of(const EvictionAssignment& assignment, bool certify) {
  const double loss = assignment.loss();
  return {.schedule = assignment.schedule(),
          .slot_price = {},
          .loss = loss,
          .bound = certify ? std::clamp(assignment.dual_bound(), 0.0, loss) : loss};
}

// The steps that evict are not those of the next larger budget and one more, so each budget has an
// assignment of its own.
CertifiedPlan plan_with_interval(const EvictionSteps& steps,
                                 const std::shared_ptr<const RemainingSums>& costs, int budget,
                                 int recent, bool certify) {
  EvictionAssignment assignment(steps, costs, recent);
  const std::vector<int> evictions = steps.num_evictions(budget);
  for (int step = steps.num_tokens() - 1; step >= 0; --step) {
    for (int count = evictions[step]; count > 0; --count) assignment.add_eviction(step);
  }
  return plan_of(assignment, certify);
}

}  // namespace

std::vector<CertifiedPlan> assignment_plans(const EvictionSteps& steps,
                                            const std::shared_ptr<const RemainingSums>& costs,
                                            std::span<const int> budgets, int recent,
                                            bool certify) {
  std::vector<CertifiedPlan> plans(budgets.size());
  if (steps.eviction_interval() != 1) {
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      plans[i] = plan_with_interval(steps, costs, budgets[i], recent, certify);
    }
    return plans;
  }
  std::vector<std::size_t> descending(budgets.size());
  std::iota(descending.begin(), descending.end(), 0);
  std::sort(descending.begin(), descending.end(),
            [&](std::size_t a, std::size_t b) { return budgets[a] > budgets[b]; });
  EvictionAssignment assignment(steps, costs, recent);
  for (const std::size_t i : descending) {
    while (assignment.budget() > budgets[i]) assignment.lower_budget();
    plans[i] = plan_of(assignment, certify);
    plans[i].slot_price = assignment.slot_prices();
  }
  return plans;
}

}  // namespace kvsim
