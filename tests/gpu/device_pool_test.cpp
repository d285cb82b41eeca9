#include "gpu/device_pool.h"

#include <catch2/catch.hpp>

#include "gpu/device_backend.h"
#include "sim/sweep/device_replays.h"
#include "tests/gpu/host_device.h"
#include "tests/support/units.h"

namespace kvsim::gpu_test::device_pool_test {

/// What all devices of a test have together.
struct SharedMemory {
  std::size_t free_bytes = std::size_t{1} << 40;
  int num_devices = 0;
  int num_allocations = 0;
};

class SharingDevice final : public HostDevice {
 public:
  explicit SharingDevice(SharedMemory& memory) : memory_(memory) { ++memory_.num_devices; }

  std::size_t free_bytes() const override { return memory_.free_bytes; }

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    if (bytes > memory_.free_bytes) throw gpu::OutOfDeviceMemory("no room");
    auto allocated = HostDevice::allocate(bytes);
    memory_.free_bytes -= bytes;
    ++memory_.num_allocations;
    return {allocated.get(), [this, allocated, bytes](std::byte*) { memory_.free_bytes += bytes; }};
  }

 private:
  SharedMemory& memory_;
};

std::function<std::unique_ptr<gpu::Device>()> maker(SharedMemory& memory) {
  return [&memory] { return std::make_unique<SharingDevice>(memory); };
}

TEST_CASE("device pool: a returned device and its memory are used again") {
  SharedMemory memory;
  const auto pool = gpu::DevicePool::make(maker(memory));
  for (const std::size_t bytes : {1000, 1000, 600}) pool->take()->allocate(bytes);
  CHECK(memory.num_devices == 1);
  CHECK(memory.num_allocations == 1);
  const auto device = pool->take();
  const auto other = pool->take();
  CHECK(device != other);
  CHECK(memory.num_devices == 2);
}

TEST_CASE("device pool: memory that is too small or far too large is freed") {
  SharedMemory memory;
  const std::size_t all = memory.free_bytes;
  const auto device = gpu::DevicePool::make(maker(memory))->take();
  for (const std::size_t bytes : {1000, 1001, 400}) {
    const auto allocated = device->allocate(bytes);
    CHECK(memory.free_bytes == all - bytes);
  }
  CHECK(memory.num_allocations == 3);
}

TEST_CASE("device pool: kept memory counts as free and makes room for others") {
  SharedMemory memory{.free_bytes = 1000};
  const auto pool = gpu::DevicePool::make(maker(memory));
  const auto device = pool->take();
  const auto other = pool->take();
  device->allocate(700);
  CHECK(memory.free_bytes == 300);
  CHECK(other->free_bytes() == 1000);
  const auto allocated = other->allocate(800);
  CHECK(memory.free_bytes == 200);
  CHECK_THROWS_AS(device->allocate(700), gpu::OutOfDeviceMemory);
}

TEST_CASE("device pool: nothing is left when the back-end and what it lent have ended") {
  SharedMemory memory;
  const std::size_t all = memory.free_bytes;
  const Unit unit = test_support::random_unit({.tokens = 70}, 1);
  const std::vector<Configuration> configurations{{Spec("h2o"), 10}};
  const UnitReplays replays{&unit, configurations};
  {
    std::unique_ptr<AttentionPass> pass;
    {
      const auto backend = gpu::make_device_backend("host", maker(memory));
      for (int call = 0; call < 3; ++call) {
        CHECK(backend->replays()->replay({&replays, 1}, {}).size() == 1);
      }
      CHECK(memory.num_devices == 1);
      CHECK(memory.num_allocations == 1);
      pass = backend->attend(unit);
    }
    AttentionBlock block;
    pass->compute(0, 32, Outputs::required, block);
    CHECK(memory.free_bytes < all);
  }
  CHECK(memory.free_bytes == all);
}

}  // namespace kvsim::gpu_test::device_pool_test
