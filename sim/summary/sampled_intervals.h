#pragma once

#include <iosfwd>
#include <vector>

#include "sim/results/store.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// Prints the intervals of one policy at one budget: one line per unit, and one with their means.
/// Nothing if there are none.
void write_unit_intervals(std::ostream& out, const std::vector<SampledIntervalRow>& rows);

/// Prints one line per policy and budget of the plan: means over its units. `store` must have all
/// of its rows. Nothing unless the plan's reference is a sample.
void write_sweep_intervals(std::ostream& out, const SweepPlan& plan, const ResultStore& store);

}  // namespace kvsim
