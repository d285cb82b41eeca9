#include "gpu/device_pool.h"

#include <utility>

namespace kvsim::gpu {

class PooledDevice final : public Device {
 public:
  PooledDevice(std::unique_ptr<Device> device, DevicePool& pool)
      : device_(std::move(device)), pool_(pool) {}

  std::size_t free_bytes() const override { return device_->free_bytes() + pool_.kept_bytes(); }

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    if (Memory kept = take(kept_, bytes); kept.address) return lend(std::move(kept), kept_);
    try {
      return lend({device_->allocate(bytes), bytes}, kept_);
    } catch (const OutOfDeviceMemory&) {
      pool_.release_kept();
    }
    return lend({device_->allocate(bytes), bytes}, kept_);
  }

  std::shared_ptr<std::byte> allocate_host(std::size_t bytes) override {
    if (Memory kept = take(kept_on_host_, bytes); kept.address) {
      return lend(std::move(kept), kept_on_host_);
    }
    return lend({device_->allocate_host(bytes), bytes}, kept_on_host_);
  }

  void upload(const void* host, std::size_t bytes, void* to) override {
    device_->upload(host, bytes, to);
  }
  void download(const void* from, std::size_t bytes, void* host) override {
    device_->download(from, bytes, host);
  }
  void download_rows(const void* from, std::size_t stride, std::size_t bytes, std::size_t rows,
                     void* host) override {
    device_->download_rows(from, stride, bytes, rows, host);
  }
  void multiply_keys(const Batch& batch) override { device_->multiply_keys(batch); }
  void run(Kernel kernel, const Batch& batch) override { device_->run(kernel, batch); }
  void wait() override { device_->wait(); }

  std::size_t kept_bytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return kept_.bytes;
  }

  void release_kept() { exchange(kept_, {}); }

 private:
  struct Memory {
    std::shared_ptr<std::byte> address;
    std::size_t bytes = 0;
  };

  Memory exchange(Memory& kept, Memory memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(kept, std::move(memory));
  }

  // The kept memory, unless it is too small or more than twice as large as needed: then it is
  // freed.
  Memory take(Memory& kept, std::size_t bytes) {
    Memory taken = exchange(kept, {});
    if (bytes <= taken.bytes && taken.bytes / 2 <= bytes) return taken;
    return {};
  }

  // Work that an exception left behind may still use the memory, but comes before all later work of
  // this device.
  std::shared_ptr<std::byte> lend(Memory memory, Memory& kept) {
    std::byte* const address = memory.address.get();
    return {address, [this, &kept, memory = std::move(memory)](std::byte*) mutable {
              exchange(kept, std::move(memory));
            }};
  }

  std::unique_ptr<Device> device_;
  DevicePool& pool_;
  std::mutex mutex_;
  Memory kept_;
  Memory kept_on_host_;
};

std::shared_ptr<DevicePool> DevicePool::make(std::function<std::unique_ptr<Device>()> make_device) {
  return std::shared_ptr<DevicePool>(new DevicePool(std::move(make_device)));
}

DevicePool::DevicePool(std::function<std::unique_ptr<Device>()> make_device)
    : make_device_(std::move(make_device)) {}

DevicePool::~DevicePool() = default;

std::shared_ptr<Device> DevicePool::take() {
  PooledDevice* device = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      device = idle_.back();
      idle_.pop_back();
    }
  }
  if (device == nullptr) {
    auto made = std::make_unique<PooledDevice>(make_device_(), *this);
    device = made.get();
    const std::lock_guard<std::mutex> lock(mutex_);
    devices_.push_back(std::move(made));
    idle_.reserve(devices_.size());  // so that a return needs no memory
  }
  return {device, [pool = shared_from_this()](PooledDevice* returned) {
            const std::lock_guard<std::mutex> lock(pool->mutex_);
            pool->idle_.push_back(returned);
          }};
}

std::size_t DevicePool::kept_bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& device : devices_) bytes += device->kept_bytes();
  return bytes;
}

void DevicePool::release_kept() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& device : devices_) device->release_kept();
}

}  // namespace kvsim::gpu
