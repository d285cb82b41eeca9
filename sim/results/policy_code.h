#pragma once

#include <string>

#include "policies/registry/spec.h"
#include "sim/results/result.h"
#include "sim/results/version.h"

namespace kvsim {

/// A digest of what decides the numbers of a policy's rows in addition to the columns of their key:
/// the code of the policy, its combinators and its allocation (Spec::code()), and the version of
/// the engine's numbers. The digest has 16 hexadecimal digits and stands in the column policy_code.
std::string policy_code(const Spec& policy, int results_version = kResultsVersion);

/// Whether a row comes from the present code. False also if its policy is a spec no more.
bool is_current(const Result& row);

}  // namespace kvsim
