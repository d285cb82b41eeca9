#pragma once

#include <memory>

#include "sim/attention/attention.h"

namespace kvsim {

/// Whether there is a driver, and a device that this build has code for. The first call is slow: it
/// initialises CUDA.
bool cuda_available();

/// Attention and replays on the current CUDA device (the first that CUDA_VISIBLE_DEVICES leaves).
/// Results agree with the CPU's up to rounding; gpu/README.md says how closely.
///
/// Throws std::runtime_error if cuda_available() is false. The members of the back-end throw it if
/// CUDA or cuBLAS fails or device memory runs out; the message names the call.
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace kvsim
