#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policies/estimator.h"
#include "policies/params.h"
#include "policies/policy.h"

namespace kvsim {

class Planner;  // sees the future: sim/core/planner.h

/// What a policy is told about the replay it is made for.
struct Context {
  int budget = 1;          ///< B, in tokens
  std::uint64_t seed = 0;  ///< from the user's seed and the unit's coordinates

  /// For a policy that follows one: per token, the step after which it leaves.
  std::span<const std::int32_t> schedule = {};
};

/// Parameters as a paper or a program sets them: `POLICY:preset=NAME`.
struct Preset {
  std::string name;
  std::string settings;    ///< "key=value,key=value"; empty: the defaults
  std::string reproduces;  ///< whose variant it is, and what of it is not reproduced
  bool acausal = false;    ///< it sees the future: listed as what it is, refused when asked for
};

/// For PolicyInfo::nests, where the parameters do not matter.
inline bool always_nests(const Params&) { return true; }

/// Everything the program knows about a policy: help, parsing, tests and the README's table are
/// derived from it. Exactly one of `make` and `make_estimator` is set.
struct PolicyInfo {
  std::string name;
  std::string keeps;        ///< what stays in the cache, in one line
  std::string source;       ///< paper and section
  std::string sees;         ///< what it has to see of a step
  std::string differences;  ///< known differences from the paper or its code; may be empty
  std::vector<Param> params;
  std::vector<Preset> presets = {};
  bool follows_schedule = false;  ///< its parameter `file` says where Context::schedule comes from

  /// Whether its caches nest: at every step what it keeps at one budget is part of what it keeps at
  /// any larger one, to the last bit. Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques
  /// for storage hierarchies", IBM Systems Journal 9(2), 1970, call this inclusion. It follows if
  /// scores and the number of protected tokens depend neither on the budget nor on what the cache
  /// holds. Null: no.
  bool (*nests)(const Params& params) = nullptr;
  std::string nests_with = {};  ///< settings with which they nest where at the defaults they do not

  /// Set for an oracle: plans the schedule that `make`'s policy then follows.
  std::unique_ptr<Planner> (*make_planner)(const Params& params) = nullptr;
  /// Whether no policy can retain more attention at the same budget; null: it is no bound.
  bool (*bounds_recall)(const Params& params) = nullptr;
  /// Whether its planner finds the plans of all budgets in about the time of one; null: no.
  bool (*plans_every_budget)(const Params& params) = nullptr;

  std::unique_ptr<Policy> (*make)(const Params& params, const Context& context) = nullptr;
  std::unique_ptr<Estimator> (*make_estimator)(const Params& params,
                                               const Context& context) = nullptr;
};

template <class P>
std::unique_ptr<Policy> make_policy(const Params& params, const Context& context) {
  return std::make_unique<P>(params, context);
}

template <class E>
std::unique_ptr<Estimator> make_estimator(const Params& params, const Context& context) {
  return std::make_unique<E>(params, context);
}

/// A change to the rules of any policy, written behind it: `POLICY+NAME:key=value`.
struct CombinatorInfo {
  std::string name;
  std::string does;         ///< in one line
  std::string source;       ///< paper and section
  std::string differences;  ///< known differences from the paper; may be empty
  std::vector<Param> params;
  void (*change)(Rules& rules, const Params& params, const Context& context);
};

/// The policy that follows Context::schedule.
std::unique_ptr<Policy> make_scheduled(const Params& params, const Context& context);

/// All policies, in the order in which help shows them, and the oracles that were added.
std::span<const PolicyInfo> policies();

/// Makes oracles known beside the policies. To be called before any other use of the registry, as
/// this moves its entries; names that are there already are left as they are.
void add_to_registry(const std::vector<PolicyInfo>& oracles);

std::span<const CombinatorInfo> combinators();

/// Throw UsageError, naming the nearest one, if there is none of that name.
const PolicyInfo& find_policy(std::string_view name);
const CombinatorInfo& find_combinator(std::string_view name);

}  // namespace kvsim
