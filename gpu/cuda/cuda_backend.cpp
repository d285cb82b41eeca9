#include "gpu/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <stdexcept>

#include "gpu/cuda/cublas.h"
#include "gpu/cuda/cuda_device.h"
#include "gpu/cuda/cuda_launch.h"
#include "gpu/device_backend.h"

namespace kvsim {
namespace {

cudaError_t device_status() {
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) status = count > 0 ? gpu::code_status() : cudaErrorNoDevice;
  cudaGetLastError();  // clears the error
  return status;
}

}  // namespace

bool cuda_available() { return device_status() == cudaSuccess; }

std::unique_ptr<Backend> make_cuda_backend() {
  const cudaError_t status = device_status();
  if (status != cudaSuccess) {
    throw std::runtime_error(fmt::format("no CUDA device is available ({}); use --device cpu",
                                         cudaGetErrorString(status)));
  }
  gpu::cublas();  // what it lacks is better known before any work
  return gpu::make_device_backend("cuda", gpu::make_cuda_device);
}

}  // namespace kvsim
