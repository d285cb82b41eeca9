#include "tests/gpu/devices.h"

#include "gpu/cuda/cuda_device.h"
#include "gpu/device_backend.h"

// Takes the place of tests/gpu/devices.cpp: tests of devices then run gpu/cuda on the stub.

namespace kvsim::gpu_test {

std::unique_ptr<Backend> TestedDevice::backend() const {
  return gpu::make_device_backend(name, make);
}

std::vector<TestedDevice> tested_devices() { return {{"cuda", gpu::make_cuda_device}}; }

}  // namespace kvsim::gpu_test
