#pragma once

namespace kvsim {

/// Adds every oracle to the registry of policies, where specs, help and tests find them. Call it
/// before any other use of the registry; see add_to_registry().
void add_oracles();

}  // namespace kvsim
