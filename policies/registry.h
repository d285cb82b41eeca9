#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "policies/params.h"
#include "policies/policy.h"

namespace kvsim {

/// What a policy is told about the replay it is made for.
struct Context {
  int budget = 1;          ///< B, in tokens
  std::uint64_t seed = 0;  ///< from the user's seed and the unit's coordinates
};

/// Everything the program knows about a policy: help, parsing, tests and the README's table are
/// derived from it.
struct PolicyInfo {
  std::string name;
  std::string keeps;        ///< what stays in the cache, in one line
  std::string source;       ///< paper and section
  std::string sees;         ///< what it has to see of a step
  std::string differences;  ///< known differences from the paper or its code; may be empty
  std::vector<Param> params;
  std::unique_ptr<Policy> (*make)(const Params& params, const Context& context);
};

template <class P>
std::unique_ptr<Policy> make_policy(const Params& params, const Context& context) {
  return std::make_unique<P>(params, context);
}

/// All policies, in the order in which help shows them.
std::span<const PolicyInfo> policies();

/// Throws UsageError, naming the nearest policy, if there is none of that name.
const PolicyInfo& find_policy(std::string_view name);

}  // namespace kvsim
