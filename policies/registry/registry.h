#pragma once

#include <list>
#include <span>
#include <string_view>
#include <vector>

#include "policies/interface/policy_info.h"

namespace kvsim {

/// All policies in the order in which help shows them, then those that were added. References to
/// entries stay valid.
const std::list<PolicyInfo>& policies();

/// Adds oracles to the table; skips names that it already holds. Not while another thread uses the
/// registry.
void add_to_registry(const std::vector<PolicyInfo>& oracles);

/// Adds a policy of a plug-in or of Python, whose `origin` and `code` the caller fills in, in place
/// of an earlier one of that name and kind of origin; specs made of that one keep it. Not while
/// another thread uses the registry. Throws UsageError for a name that is none, that a built-in
/// policy or an alias has, or that lists of specs use.
void register_policy(PolicyInfo policy);

std::span<const CombinatorInfo> combinators();

/// What stands in a list of specs for every policy, and for every oracle.
inline constexpr std::string_view kAllPolicies = "all";
inline constexpr std::string_view kAllOracles = "oracles";

/// Throw UsageError, naming the nearest entry, for an unknown name.
const PolicyInfo& find_policy(std::string_view name);
const CombinatorInfo& find_combinator(std::string_view name);

}  // namespace kvsim
