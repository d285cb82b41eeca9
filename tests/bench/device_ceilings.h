#pragma once

#include <nlohmann/json.hpp>

namespace kvsim::bench {

/// What the current CUDA device does at most, measured: its name, the rates of large matrix
/// products in fp32 and fp64 in GFLOP/s, and of copies within it and to it in GB/s.
nlohmann::json device_ceilings();

}  // namespace kvsim::bench
