#pragma once

#include <string>
#include <vector>

#include "policies/registry/spec.h"
#include "sim/results/paired_bootstrap.h"
#include "sim/summary/unit_values.h"

namespace kvsim {

/// What ranks policies at one budget.
struct Ranking {
  std::string best;  ///< what the best one has: "least projected error"
  bool is_loss = true;
  UnitValues values;
};

/// One line: the evicting policy with the best mean at the budget, and those whose paired
/// difference from it has an interval that contains 0; or that the samples are too few. Oracles,
/// estimators and policies that do not keep to the budget or select from more than it do not take
/// part. Empty for fewer than two policies. `bootstrap`: of the units of the values.
std::string best_policies(const std::string& budget, const std::vector<Spec>& policies,
                          const Ranking& ranking, const PairedBootstrap& bootstrap);

}  // namespace kvsim
