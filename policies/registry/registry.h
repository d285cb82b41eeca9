#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "policies/interface/policy_info.h"

namespace kvsim {

/// All policies in the order in which help shows them, then the oracles that were added.
std::span<const PolicyInfo> policies();

/// Adds oracles to the table; skips names that it already holds. Call this before any other use of
/// the registry, because it invalidates references to entries.
void add_to_registry(const std::vector<PolicyInfo>& oracles);

std::span<const CombinatorInfo> combinators();

/// Throw UsageError, naming the nearest entry, for an unknown name.
const PolicyInfo& find_policy(std::string_view name);
const CombinatorInfo& find_combinator(std::string_view name);

}  // namespace kvsim
