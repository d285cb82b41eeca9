#pragma once

#include <string>

#include "policies/registry/spec.h"

namespace kvsim {

/// Policies that other code needs for what they are, so that none is named there.

/// The one that evicts nothing.
Spec full_cache();

/// The one that every other is compared with: the newest tokens.
Spec baseline();

/// The canonical spec of the oracle that no policy retains more attention than. A text: the
/// registry has oracles only after add_oracles().
std::string recall_optimum();

/// The one that follows the schedule of its context.
Spec scheduled();

/// Whether the policy is the algorithm of SubGen's Theorem 1.
bool is_subgen(const Spec& policy);

}  // namespace kvsim
