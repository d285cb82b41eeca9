#pragma once

namespace kvsim {

/// Adds every oracle to the registry, where specs, help and tests find them beside the policies. To
/// be called first of all; see add_to_registry().
void add_oracles();

}  // namespace kvsim
