#pragma once

#include <map>
#include <string>
#include <vector>

namespace kvsim::cli {

/// The recall of policies at one budget: per canonical spec, one value per unit, the units in the
/// same order for all.
using UnitRecalls = std::map<std::string, std::vector<double>>;

/// Per unit, the recall of `a` - that of `b`.
std::vector<double> differences(const UnitRecalls& recalls, const std::string& a,
                                const std::string& b);

}  // namespace kvsim::cli
