#include "tests/gpu/devices.h"

#include <catch2/catch.hpp>

#include "gpu/device_backend.h"
#include "tests/gpu/host_device.h"
#ifdef KVSIM_WITH_CUDA
#include "gpu/cuda/cuda_backend.h"
#include "gpu/cuda/cuda_device.h"
#endif

namespace kvsim::gpu_test {

std::unique_ptr<Backend> TestedDevice::backend() const {
  return gpu::make_device_backend(name, make);
}

std::vector<TestedDevice> tested_devices() {
  static bool has_warned = false;
  const auto warn = [](const std::string& reason) {
    if (!has_warned) WARN("skipped on a GPU: " << reason);
    has_warned = true;
  };
  std::vector<TestedDevice> devices = {{"host", [] { return std::make_unique<HostDevice>(); }}};
#ifdef KVSIM_WITH_CUDA
  try {
    make_cuda_backend();
    devices.push_back({"cuda", gpu::make_cuda_device});
  } catch (const std::runtime_error& error) {
    warn(error.what());
  }
#else
  warn("this was built without CUDA");
#endif
  return devices;
}

}  // namespace kvsim::gpu_test
