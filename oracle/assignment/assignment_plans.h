#pragma once

#include <memory>
#include <span>
#include <vector>

#include "oracle/assignment/certified_plan.h"
#include "oracle/assignment/remaining_sums.h"

namespace kvsim {

/// How many tokens a cache holds, and how many of the newest it always keeps, fewer than that.
struct CacheSize {
  int budget = 1;
  int recent = 0;
};

/// The least sums of costs of several caches, by EvictionAssignment: with an eviction interval of 1
/// in one pass per `recent`. `certify`: finds each bound by a pass over all costs, and slot prices;
/// otherwise it is the loss, which the construction makes optimal, and prices, whose memory for all
/// budgets of a long text is more than that of everything else, are left out. Throws Interrupted.
std::vector<CertifiedPlan> assignment_plans(const EvictionSteps& steps,
                                            const std::shared_ptr<const RemainingSums>& costs,
                                            std::span<const CacheSize> caches, bool certify);

}  // namespace kvsim
