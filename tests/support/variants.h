#pragma once

#include <string>
#include <vector>

#include "policies/registry/spec.h"
#include "sim/replay/replay.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim::test_support {

/// A policy with one parameter set to something other than its default, or with one combinator.
struct Variant {
  std::string param;  ///< empty: the policy at its defaults; "+NAME": with that combinator
  Spec spec;
};

/// Whether a spec may add the combinator to this policy, at its defaults or with these parameters.
bool can_change(const CombinatorInfo& combinator, const Spec& policy);
bool can_change(const CombinatorInfo& combinator, const Params& params, const Spec& policy);

/// Values other than the default that the declaration allows, as a user would write them.
std::vector<std::string> alternatives(const Param& param);

/// The policy at its defaults, then with each parameter at each of its alternatives, then with each
/// combinator. None for a policy that follows a schedule.
std::vector<Variant> variants(const PolicyInfo& policy);

/// The variants of all policies that need no more of a trace than queries, keys and values. By day
/// every second number of a parameter, and a third of the combinators, h2o all of them.
std::vector<Variant> all_variants();

/// `options` in the protocol that the policy allows: prefill mode with a cache that is cut once,
/// for one that scores the prompt alone. The unit then needs a prompt.
ReplayOptions options_for(const Spec& policy, ReplayOptions options);

/// Configurations of policies that are replayed with the same options.
struct ReplayGroup {
  ReplayOptions options;
  std::vector<Configuration> configurations;
};

/// `configurations` that are replayed with `options`, then those of policies that score the prompt
/// alone, with options_for() them.
std::vector<ReplayGroup> by_protocol(const ReplayOptions& options,
                                     const std::vector<Configuration>& configurations);

/// The same for the policies of a sweep.
std::vector<SweepRequest> by_protocol(const SweepRequest& request);

}  // namespace kvsim::test_support
