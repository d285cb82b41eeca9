#pragma once

#include <string>
#include <vector>

#include "policies/registry/spec.h"

namespace kvsim::test_support {

/// A policy with one parameter set to something other than its default, or with one combinator.
struct Variant {
  std::string param;  ///< empty: the policy at its defaults; "+NAME": with that combinator
  Spec spec;
};

/// Values other than the default that the declaration allows, as a user would write them.
std::vector<std::string> alternatives(const Param& param);

/// The policy at its defaults, then with each parameter at each of its alternatives, then with each
/// combinator. None for a policy that follows a schedule.
std::vector<Variant> variants(const PolicyInfo& policy);

/// The variants of all policies.
std::vector<Variant> all_variants();

}  // namespace kvsim::test_support
