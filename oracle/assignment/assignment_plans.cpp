#include "oracle/assignment/assignment_plans.h"

#include <algorithm>
#include <functional>
#include <map>

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
                                 const std::shared_ptr<const RemainingSums>& costs,
                                 const CacheSize& cache, bool certify) {
  EvictionAssignment assignment(steps, costs, cache.recent);
  const std::vector<int> evictions = steps.num_evictions(cache.budget);
  for (int step = steps.num_tokens() - 1; step >= 0; --step) {
    for (int count = evictions[step]; count > 0; --count) assignment.add_eviction(step);
  }
  return plan_of(assignment, certify);
}

}  // namespace

std::vector<CertifiedPlan> assignment_plans(const EvictionSteps& steps,
                                            const std::shared_ptr<const RemainingSums>& costs,
                                            std::span<const CacheSize> caches, bool certify) {
  std::vector<CertifiedPlan> plans(caches.size());
  std::map<int, std::multimap<int, std::size_t, std::greater<>>> by_recent;  // budgets descend
  for (std::size_t i = 0; i < caches.size(); ++i) {
    if (steps.protocol().evicts_every_step()) {
      by_recent[caches[i].recent].emplace(caches[i].budget, i);
    } else {
      plans[i] = plan_with_interval(steps, costs, caches[i], certify);
    }
  }
  for (const auto& [recent, budgets] : by_recent) {
    EvictionAssignment assignment(steps, costs, recent);
    for (const auto& [budget, i] : budgets) {
      while (assignment.budget() > budget) assignment.lower_budget();
      plans[i] = plan_of(assignment, certify);
      if (certify) plans[i].slot_price = assignment.slot_prices();
    }
  }
  return plans;
}

}  // namespace kvsim
