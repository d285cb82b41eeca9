#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/device.h"

namespace kvsim::gpu {

class PooledDevice;

/// Devices that the calls of a back-end take in turn. Making one is slow (a stream, a cuBLAS
/// handle), and so is its memory: a device keeps the last memory that it got back, its own and the
/// host's, for the next allocation of about that size. All of it is released with the pool. Several
/// threads may use a pool at once.
class DevicePool : public std::enable_shared_from_this<DevicePool> {
 public:
  /// A pool without devices; `make_device` makes one whenever all are taken.
  static std::shared_ptr<DevicePool> make(std::function<std::unique_ptr<Device>()> make_device);

  ~DevicePool();

  /// A device that nobody else uses. It returns to the pool, which it keeps alive, with the last
  /// copy of the pointer. Its free_bytes() count kept memory as free, and allocate() releases all
  /// kept memory before it fails. Throws what `make_device` throws.
  std::shared_ptr<Device> take();

 private:
  friend class PooledDevice;

  explicit DevicePool(std::function<std::unique_ptr<Device>()> make_device);

  std::size_t kept_bytes();
  void release_kept();

  std::function<std::unique_ptr<Device>()> make_device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PooledDevice>> devices_;
  std::vector<PooledDevice*> idle_;
};

}  // namespace kvsim::gpu
