#include "policies/registry/allocation.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/errors.h"
#include "sim/base/nearest.h"

namespace kvsim {

std::span<const AllocationInfo> allocations() {
  static const std::vector<AllocationInfo> table{
      {"uniform", "every head gets the budget", "the default", ""},
      {"pyramid",
       "less for later layers: apart from the newest tokens that the policy always keeps, a "
       "layer's part falls evenly from nearly twice an even split to a twentieth of it",
       "PyramidKV section 4.1; KVCache-Factory, whose beta, the even split over the last layer's "
       "part, is 20",
       "the program rounds the step between layers down and may so keep more than the budget; "
       "where it does, later layers get less here. As in the program, the split is even where "
       "twice the budget without those newest tokens exceeds the text"},
      {"persistence", "more for layers in which less of what is important stays so",
       "Scissorhands section 4.1, \"Allocating Budgets Across Attention Heads\"",
       "the paper gives a rule of thumb; here in proportion to 1 / persistence ratio, measured "
       "over the prompt, or in stream mode over the whole text, the future included"},
      {"adaptive",
       "a fifth of the budget for every head, the rest of a layer where its heads attend; newest "
       "tokens that the policy always keeps do not compete",
       "AdaKV Algorithm 1, alpha = 0.2; AdaKVPress of kvpress",
       "the votes are those of a policy that has votes, snapkv, else the attention of the "
       "prompt's last 32 steps, or in stream mode the text's, the future included"}};
  return table;
}

std::vector<std::string> allocation_names() {
  std::vector<std::string> names;
  for (const AllocationInfo& allocation : allocations()) names.push_back(allocation.name);
  return names;
}

const std::string& allocation_name(Allocation allocation) {
  return allocations()[static_cast<std::size_t>(allocation)].name;
}

Allocation parse_allocation(std::string_view name) {
  const std::vector<std::string> names = allocation_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw UsageError(fmt::format("unknown allocation '{}'; did you mean '{}'? There are: {}", name,
                                 nearest(name, names), fmt::join(names, ", ")));
  }
  return static_cast<Allocation>(found - names.begin());
}

bool needs_measurement(Allocation allocation) {
  return allocation == Allocation::persistence || allocation == Allocation::adaptive;
}

}  // namespace kvsim
