#pragma once

#include <string>
#include <vector>

#include "policies/spec.h"

namespace kvsim::core_test {

/// One parameter of a policy set to something other than its default.
struct Variant {
  std::string param;  ///< empty: the policy at its defaults
  Spec spec;
};

/// Values other than the default that the declaration allows, as a user would write them.
std::vector<std::string> alternatives(const Param& param);

/// The policy at its defaults, then with each parameter at each of its alternatives.
std::vector<Variant> variants(const PolicyInfo& policy);

/// The variants of all policies.
std::vector<Variant> all_variants();

}  // namespace kvsim::core_test
