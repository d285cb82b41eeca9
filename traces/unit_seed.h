#pragma once

#include "sim/base/random_bits.h"
#include "traces/unit.h"

namespace kvsim {

/// The seed of a unit's random choices: a hash of the user's seed and the unit's name.
inline std::uint64_t unit_seed(std::uint64_t seed, const UnitName& unit) {
  const std::uint64_t of_sequence = random_bits(seed, unit.sequence);
  const std::uint64_t of_layer = random_bits(of_sequence, static_cast<std::uint64_t>(unit.layer));
  return random_bits(of_layer, static_cast<std::uint64_t>(unit.kv_head));
}

}  // namespace kvsim
