#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "sim/attention/attention.h"
#include "sim/base/nearest.h"
#ifdef KVSIM_WITH_CUDA
#include "gpu/cuda/cuda_backend.h"
#endif

namespace kvsim {

/// The back-end of `device`: cpu, cuda, or auto, which is cuda where there is one. Throws
/// UsageError for another word, std::runtime_error if there is no such device.
inline std::unique_ptr<Backend> choose_backend(const std::string& device) {
  check_choice("--device", device, {"cpu", "cuda", "auto"});
#ifdef KVSIM_WITH_CUDA
  if (device == "cuda" || (device == "auto" && cuda_available())) return make_cuda_backend();
#else
  if (device == "cuda") {
    throw std::runtime_error("--device cuda: this kvsim was built without CUDA; use --device cpu");
  }
#endif
  return make_cpu_backend();
}

}  // namespace kvsim
