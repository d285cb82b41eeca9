#pragma once

#include <string>
#include <vector>

#include "policies/registry/spec.h"
#include "sim/cli/unit_recalls.h"
#include "sim/results/paired_bootstrap.h"

namespace kvsim::cli {

/// One line: the evicting policy with the highest mean recall at the budget, and those whose paired
/// difference from it has an interval that contains 0; or that the samples are too few. Oracles,
/// estimators and policies that do not keep to the budget or select from more than it do not take
/// part. Empty for fewer than two policies.
std::string best_policies(const std::string& budget, const std::vector<Spec>& policies,
                          const UnitRecalls& recalls, const PairedBootstrap& bootstrap);

}  // namespace kvsim::cli
