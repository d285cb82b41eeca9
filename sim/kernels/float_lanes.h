#pragma once

#include <cstdint>
#include <cstring>

#include "sim/kernels/vector_targets.h"

namespace kvsim {

/// Floats per vector: half of the steps of a block.
inline constexpr int kLanes = 16;

using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using LaneBits = std::int32_t __attribute__((vector_size(kLanes * sizeof(std::int32_t))));

KVSIM_INLINE void load(Lanes& lanes, const float* from) { std::memcpy(&lanes, from, sizeof lanes); }
KVSIM_INLINE void store(const Lanes& lanes, float* to) { std::memcpy(to, &lanes, sizeof lanes); }

}  // namespace kvsim
