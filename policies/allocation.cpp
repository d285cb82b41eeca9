#include "policies/allocation.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/errors.h"
#include "policies/nearest.h"

namespace kvsim {

const std::vector<std::string>& allocation_names() {
  static const std::vector<std::string> names{"uniform", "pyramid", "persistence", "adaptive"};
  return names;
}

std::string allocation_name(Allocation allocation) {
  return allocation_names()[static_cast<std::size_t>(allocation)];
}

Allocation parse_allocation(std::string_view name) {
  const auto& names = allocation_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw UsageError(fmt::format("unknown allocation '{}'; did you mean '{}'? There are: {}", name,
                                 nearest(name, names), fmt::join(names, ", ")));
  }
  return static_cast<Allocation>(found - names.begin());
}

}  // namespace kvsim
