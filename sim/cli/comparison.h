#pragma once

#include <iosfwd>
#include <vector>

#include "sim/core/sweep.h"

namespace kvsim::cli {

/// One line per unit and one with their means: what a single replay found.
void write_units(std::ostream& out, const std::vector<Result>& results);

/// One line per policy and budget that the plan asks for, means over its units (the miss rate is
/// that of all their accesses): what a sweep found.
/// `store` holds all of its rows.
void write_comparison(std::ostream& out, const SweepPlan& plan, const ResultStore& store);

}  // namespace kvsim::cli
