#pragma once

#include <string>
#include <vector>

#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// What policies of the plan ask for and some budget has no room for: tokens that they protect,
/// recent tokens of an oracle, and shares of an estimator. One line per policy, with what runs
/// instead at which budgets. A split over layers and heads counts as if every head had the mean.
std::vector<std::string> cut_amounts(const SweepPlan& plan);

}  // namespace kvsim
