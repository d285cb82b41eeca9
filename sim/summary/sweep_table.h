#pragma once

#include <iosfwd>
#include <vector>

#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// Prints the results of one policy at one budget: one line per unit, and one with their means.
void write_units(std::ostream& out, const std::vector<Result>& results);

/// Prints one line per policy and budget of the plan: means over its units, and the miss rate over
/// all their accesses. `store` must have all of its rows.
void write_sweep_table(std::ostream& out, const SweepPlan& plan, const ResultStore& store);

}  // namespace kvsim
