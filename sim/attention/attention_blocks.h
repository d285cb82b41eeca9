#pragma once

#include <functional>

#include "sim/attention/attention.h"

namespace kvsim {

/// Calls `visit` for each block of the full attention of steps 0 .. num_steps - 1, in order. Blocks
/// have their outputs.
void for_each_block(const Unit& unit, int num_steps, const Backend& backend,
                    const std::function<void(const AttentionBlock&)>& visit);

}  // namespace kvsim
