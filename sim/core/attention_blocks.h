#pragma once

#include <functional>

#include "sim/core/attention.h"

namespace kvsim {

/// One pass over the full attention of a unit's steps 0 .. num_steps - 1, block by block in order.
void for_each_block(const Unit& unit, int num_steps, const Backend& backend,
                    const std::function<void(const AttentionBlock&)>& visit);

}  // namespace kvsim
