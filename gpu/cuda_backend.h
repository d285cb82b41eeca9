#pragma once

#include <memory>

#include "sim/core/attention.h"

namespace kvsim {

/// Whether there is a driver and a device that this build has code for. The first call is slow: it
/// starts CUDA.
bool cuda_available();

/// Attention and replays on the current CUDA device (the first one that CUDA_VISIBLE_DEVICES
/// leaves). What it gives agrees with the CPU up to rounding; gpu/README.md says how closely.
///
/// Throws std::runtime_error if cuda_available() is false. Its members throw it if CUDA
/// or cuBLAS fails, out of device memory included; the message names the call.
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace kvsim
