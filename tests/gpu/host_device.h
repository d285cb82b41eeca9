#pragma once

#include <cstddef>
#include <map>

#include "gpu/device.h"

namespace kvsim::gpu_test {

/// Runs the kernels on the CPU, a thread block at a time, its threads one after the other. Memory
/// starts poisoned, the order of threads and thread blocks is from the last to the first, and no
/// sum is taken in the order of a loop: what depends on such things shows.
class HostDevice : public gpu::Device {
 public:
  /// With room for so many bytes, and so many on chip.
  explicit HostDevice(std::size_t bytes = std::size_t{1} << 40, std::size_t on_chip = 1 << 16)
      : free_bytes_(bytes), on_chip_(on_chip) {}

  std::size_t free_bytes() const override { return free_bytes_; }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  std::shared_ptr<std::byte> allocate_host(std::size_t bytes) override;
  void upload(const void* host, std::size_t bytes, void* to) override;
  void download(const void* from, std::size_t bytes, void* host) override;
  void download_rows(const void* from, std::size_t stride, std::size_t bytes, std::size_t rows,
                     void* host) override;
  void multiply_keys(const gpu::Batch& batch) override;
  void run(gpu::Kernel kernel, const gpu::Batch& batch) override;
  void wait() override {}

  int num_allocations() const { return num_allocations_; }

  /// Bytes downloaded so far to memory that does not come from allocate_host().
  std::size_t pageable_bytes() const { return pageable_bytes_; }

 private:
  std::size_t free_bytes_;
  std::size_t on_chip_;
  int num_allocations_ = 0;
  std::size_t pageable_bytes_ = 0;
  std::map<const std::byte*, std::size_t> page_locked_;  // bytes by address
};

/// One thread block of HostDevice::run(), with so many bytes on chip.
void run_on_host(gpu::Kernel kernel, const gpu::Batch& batch, std::size_t on_chip, int index);

}  // namespace kvsim::gpu_test
