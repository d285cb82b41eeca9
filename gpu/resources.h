#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "gpu/status.h"

namespace kvsim::gpu {

struct Release {
  void operator()(CUstream_st* stream) const { cudaStreamDestroy(stream); }
  void operator()(cublasContext* blas) const { cublasDestroy(blas); }
  void operator()(void* device_memory) const { cudaFree(device_memory); }
};

using Stream = std::unique_ptr<CUstream_st, Release>;
using Blas = std::unique_ptr<cublasContext, Release>;

/// A stream that does not wait for any other.
Stream make_stream();

/// cuBLAS on `stream`, in the precision that its routines are named for: no TF32, no emulation.
Blas make_blas(cudaStream_t stream);

/// Throws std::runtime_error that says how much was asked for if the device has no room.
void* allocate(std::size_t bytes);

/// An array in device memory, uninitialised.
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t size) : memory_(allocate(size * sizeof(T))) {}

  T* data() const { return static_cast<T*>(memory_.get()); }

 private:
  std::unique_ptr<void, Release> memory_;
};

/// Copies `count` items from host memory, which may change once this returns.
template <class T>
void upload(const T* host, std::size_t count, const DeviceBuffer<T>& device, cudaStream_t stream) {
  check(cudaMemcpyAsync(device.data(), host, count * sizeof(T), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync to the device");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

/// Copies the first `count` items to host memory; they are there once this returns.
template <class T>
void download(const DeviceBuffer<T>& device, std::size_t count, T* host, cudaStream_t stream) {
  check(cudaMemcpyAsync(host, device.data(), count * sizeof(T), cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync from the device");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace kvsim::gpu
