#pragma once

#include <memory>

#include "sim/core/attention.h"

namespace kvsim::gpu {

/// The full attention of `unit`, which has to outlive it, on a stream of its own.
std::unique_ptr<AttentionPass> make_cuda_pass(const Unit& unit);

}  // namespace kvsim::gpu
