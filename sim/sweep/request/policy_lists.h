#pragma once

#include <span>
#include <string>
#include <vector>

#include "policies/registry/spec_list.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// The policies of a list, and what the user should know of them, a sentence each.
struct PolicyList {
  std::vector<Spec> policies;
  std::vector<std::string> notes;
};

/// What the user should know of a spec that was named by an alias; empty for any other.
std::string alias_note(const Spec& spec);

/// The specs in `lists` (parse_specs()) with this allocation, except where a spec names its own. A
/// note for each alias. Throws UsageError.
PolicyList policies_in(std::span<const std::string> lists, const AllocationSpec& allocation,
                       const NamedSpecs& named = every_spec());

/// The same, but `all` and `oracles` leave out the policies that `request` rules out
/// (check_policy()), and those that need what a trace lacks (check_needs()), with a note; the
/// traces of `request` are open afterwards if a policy needs something. Throws UsageError also if
/// nothing is left.
PolicyList policies_for(SweepRequest& request, std::span<const std::string> lists,
                        const AllocationSpec& allocation, const NamedSpecs& named = every_spec());

}  // namespace kvsim
