#pragma once

#include <memory>
#include <span>
#include <vector>

#include "oracle/assignment/certified_plan.h"
#include "oracle/assignment/remaining_sums.h"

namespace kvsim {

/// The least sums of costs at several budgets, which exceed `recent`, by EvictionAssignment: with
/// an eviction interval of 1 in one pass. `certify`: finds the bound by a pass over all costs per
/// budget; otherwise it is the loss, which the construction makes optimal. Throws Interrupted.
std::vector<CertifiedPlan> assignment_plans(const EvictionSteps& steps,
                                            const std::shared_ptr<const RemainingSums>& costs,
                                            std::span<const int> budgets, int recent, bool certify);

}  // namespace kvsim
