#pragma once

#include <functional>

#include "sim/core/attention.h"

namespace kvsim {

/// Steps per block for a unit of this size: as many as keep a block within a fixed memory.
int steps_per_block(int num_tokens, int group_size);

/// One pass over the full attention of a unit's steps 0 .. num_steps - 1, block by block in order.
void for_each_block(const Unit& unit, int num_steps, const Backend& backend,
                    const std::function<void(const AttentionBlock&)>& visit);

}  // namespace kvsim
