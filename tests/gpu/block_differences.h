#pragma once

#include <string>

#include "sim/attention/attention.h"

namespace kvsim::gpu_test {

/// The names of the fields in which a block of `unit` from the GPU differs from the CPU's, beyond
/// the tolerances that the source file states. Empty if there are none.
std::string differences(const Unit& unit, const AttentionBlock& cuda, const AttentionBlock& cpu);

}  // namespace kvsim::gpu_test
