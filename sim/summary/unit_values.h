#pragma once

#include <map>
#include <string>
#include <vector>

namespace kvsim {

/// A measure of policies at one budget: per canonical spec, one value per unit (or layer), these in
/// the same order for all.
using UnitValues = std::map<std::string, std::vector<double>>;

/// Per unit, the value of `a` - that of `b`.
std::vector<double> differences(const UnitValues& values, const std::string& a,
                                const std::string& b);

}  // namespace kvsim
