#include "gpu/cuda_backend.h"

#include <fmt/format.h>

#include <stdexcept>

#include "gpu/cuda_pass.h"
#include "gpu/weigh_rows.h"

namespace kvsim {
namespace {

class CudaBackend final : public Backend {
 public:
  std::string device() const override { return "cuda"; }

  std::unique_ptr<AttentionPass> attend(const Unit& unit) const override {
    return gpu::make_cuda_pass(unit);
  }
};

cudaError_t device_status() {
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) status = count > 0 ? gpu::weigh_rows_status() : cudaErrorNoDevice;
  cudaGetLastError();  // asking is no failure
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
  return std::make_unique<CudaBackend>();
}

}  // namespace kvsim
