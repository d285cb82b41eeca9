#pragma once

#include "policies/registry/spec.h"

namespace kvsim {

/// Adds every oracle to the registry of policies, where specs, help and tests find them. Call it
/// before any other use of the registry; see add_to_registry().
void add_oracles();

/// The oracle that no policy retains more attention than. After add_oracles().
Spec exact_optimum();

}  // namespace kvsim
