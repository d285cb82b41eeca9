#pragma once

#include <cstdint>

#include "policies/interface/unit_sizes.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// Without `hidden` and `gradients`.
UnitSizes unit_sizes(const SweepPlan& plan, const PlannedUnit& planned);

// Estimates in nanoseconds of one core; README.md says how they were measured.

/// Of reading the unit.
std::int64_t reading_nanoseconds(const UnitSizes& unit);

/// Of the full attention and its outputs for so many pairs of a step and a token.
std::int64_t reference_nanoseconds(const UnitSizes& unit, std::int64_t pairs);

/// Of the whole attention that oracles see.
std::int64_t future_nanoseconds(const UnitSizes& unit);

/// Of an oracle's plan for all budgets together, of which `budget` is the smallest.
std::int64_t planning_nanoseconds(const Spec& policy, const UnitSizes& unit, std::int64_t budget);

}  // namespace kvsim
