#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>

#include "gpu/kernels.h"

namespace kvsim::gpu {

/// A device has no room for what was asked of it.
class OutOfDeviceMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a replay needs of a device, or of what stands in for one. One thread uses it at a time;
/// work is done in the order in which it is given. All but the destructor throw std::runtime_error,
/// with the name of the call, if the device fails.
class Device {
 public:
  virtual ~Device() = default;

  /// How many bytes allocate() could give at the moment.
  virtual std::size_t free_bytes() const = 0;

  /// Memory that is not initialised, for as long as the pointer is held, which must not outlive the
  /// device. Throws OutOfDeviceMemory.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;

  /// Host memory may change once either returns; what was downloaded is there then.
  virtual void upload(const void* host, std::size_t bytes, void* to) = 0;
  virtual void download(const void* from, std::size_t bytes, void* host) = 0;

  /// logit[u, s, h, j] = <query[u, t, h], key[u, j]> for the steps of the block and j < width, in
  /// fp32.
  virtual void multiply_keys(const Batch& batch) = 0;

  virtual void run(Kernel kernel, const Batch& batch) = 0;

  /// Returns when all work that was given is done.
  virtual void wait() = 0;
};

}  // namespace kvsim::gpu
