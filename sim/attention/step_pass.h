#pragma once

#include <memory>

#include "sim/attention/attention.h"

namespace kvsim {

/// The full attention of single steps: blocks of one step, with outputs, and of what follows from
/// the weights num_pivotal alone. Takes O(n) per step, n being the tokens up to it. `unit` has to
/// outlive the pass.
std::unique_ptr<AttentionPass> attend_single_steps(const Unit& unit);

}  // namespace kvsim
