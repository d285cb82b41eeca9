#pragma once

#include <vector>

#include "sim/cli/options.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim::cli {

/// The policies of --policies, of which `all` and `oracles` leave out those that `request` rules
/// out (check_policy()), with a note on standard error without --quiet. Throws UsageError as
/// specs_from(), and if nothing is left.
std::vector<Spec> policies_from(const Verb& verb, const po::variables_map& values,
                                const SweepRequest& request);

}  // namespace kvsim::cli
