#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "traces/unit.h"

namespace kvsim::gpu {

/// Whether every number of the unit's queries and keys is a float16, as in traces that are recorded
/// in it. Their products are exact in fp32.
bool has_half_vectors(const Unit& unit);

/// The same numbers as IEEE binary16, which each of them must be.
std::vector<std::uint16_t> half_bits(std::span<const float> numbers);

}  // namespace kvsim::gpu
