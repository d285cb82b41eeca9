#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>

#include "gpu/kernels/kernels.h"

namespace kvsim::gpu {

/// An allocation does not fit in the device's free memory.
class OutOfDeviceMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A device that runs kernels: CUDA's, or in tests the host. One thread uses it at a time, and it
/// does its work in the order of the calls. All members but the destructor throw
/// std::runtime_error, with the name of the call, if the device fails.
class Device {
 public:
  virtual ~Device() = default;

  /// Bytes of free memory at the moment.
  virtual std::size_t free_bytes() const = 0;

  /// Uninitialised memory, freed with the last copy of the pointer. No copy may outlive the device.
  /// Throws OutOfDeviceMemory.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;

  /// Host memory that the device copies to at its full speed; as allocate() otherwise.
  virtual std::shared_ptr<std::byte> allocate_host(std::size_t bytes) = 0;

  /// These return when the copy is complete.
  virtual void upload(const void* host, std::size_t bytes, void* to) = 0;
  virtual void download(const void* from, std::size_t bytes, void* host) = 0;

  /// Downloads the first `bytes` of each row; rows begin `stride` bytes apart on the device and
  /// follow each other on the host.
  virtual void download_rows(const void* from, std::size_t stride, std::size_t bytes,
                             std::size_t rows, void* host) = 0;

  /// logit[u, s, h, j] = <query[u, t, h], key[u, j]> for the steps of the block and j < width.
  /// Products and sums are fp32; those of half vectors may be taken on matrix units, as their
  /// products are exact.
  virtual void multiply_keys(const Batch& batch) = 0;

  /// Starts a kernel on the batch's current block.
  virtual void run(Kernel kernel, const Batch& batch) = 0;

  /// Returns when all work so far is done.
  virtual void wait() = 0;
};

}  // namespace kvsim::gpu
