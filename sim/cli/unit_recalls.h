#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/results/paired_bootstrap.h"

namespace kvsim::cli {

/// The recall of policies at one budget: per canonical spec, one value per unit, the units in the
/// same order for all.
using UnitRecalls = std::map<std::string, std::vector<double>>;

/// Per unit, the recall of `a` - that of `b`.
std::vector<double> differences(const UnitRecalls& recalls, const std::string& a,
                                const std::string& b);

/// "0.0120" with 4 decimals; never "-0.0000".
std::string fixed(double number, int decimals);

/// "[.0120, .0340]" with `decimals` decimals; empty without an interval.
std::string interval_text(const Estimate& estimate, int decimals);

}  // namespace kvsim::cli
