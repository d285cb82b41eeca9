#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

/// A change to any policy, written behind it: `POLICY+NAME:key=value`.
struct CombinatorInfo {
  std::string name;
  std::string does;    ///< in one line
  std::string source;  ///< paper and section
  std::vector<Param> params;
  std::unique_ptr<Policy> (*wrap)(std::unique_ptr<Policy> policy, const Params& params,
                                  const Context& context);
};

template <class P>
std::unique_ptr<Policy> wrap_policy(std::unique_ptr<Policy> policy, const Params& params,
                                    const Context& context) {
  return std::make_unique<P>(std::move(policy), params, context);
}

/// All policies, in the order in which help shows them.
std::span<const PolicyInfo> policies();

std::span<const CombinatorInfo> combinators();

/// Throw UsageError, naming the nearest one, if there is none of that name.
const PolicyInfo& find_policy(std::string_view name);
const CombinatorInfo& find_combinator(std::string_view name);

}  // namespace kvsim
