#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "sim/attention/attention.h"

namespace kvsim::gpu_test {

/// What a test of devices runs on.
struct TestedDevice {
  std::string name;
  std::function<std::unique_ptr<gpu::Device>()> make;

  std::unique_ptr<Backend> backend() const;
};

/// The host's stand-in, and CUDA where there is a device; else a warning that says why it is
/// skipped.
std::vector<TestedDevice> tested_devices();

}  // namespace kvsim::gpu_test
