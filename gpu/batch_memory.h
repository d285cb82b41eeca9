#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gpu/device.h"
#include "sim/attention/attention.h"

namespace kvsim::gpu {

/// The summary of the full attention that a batch without replays computes.
enum class Summary { none, small, pivotal, future };

/// What the memory of a batch depends on.
struct BatchSize {
  Shape shape;
  int num_units = 0;
  int num_replays = 0;
  int capacity = 0;            ///< slots of the largest cache, gaps of a block included
  std::size_t remembered = 0;  ///< sum of remembered_bytes() over the replays
  Summary summary = Summary::none;
  int num_arrival_rows = 0;  ///< replays by a rule of the kind `newest`
};

/// The unit's shape in stream mode. Reads all its queries and keys.
Shape shape_of(const Unit& unit);

/// The unit's settings of the attention, without replays.
UnitTask task_of(const Unit& unit);

/// The device memory that a batch of this size takes, in bytes.
std::size_t batch_bytes(const BatchSize& size);

/// A batch and its device memory.
class BatchMemory {
 public:
  /// Throws OutOfDeviceMemory.
  BatchMemory(Device& device, const BatchSize& size);

  Batch& batch() { return batch_; }

  void upload_units(std::span<const UnitTask> tasks, std::span<const Unit* const> units);

  /// `order` is that of ReplayGroups; `longest_values` are those of all units, one after the other.
  void upload_replays(std::span<const ReplayTask> tasks, std::span<const std::int32_t> order,
                      std::span<const double> arrival_scores,
                      std::span<const double> longest_values);

  /// `count` items of one of the batch's arrays, from `from` on.
  template <class T>
  std::vector<T> download(const T* from, std::size_t count) {
    std::vector<T> items(count);
    if (count > 0) device_.download(from, count * sizeof(T), items.data());
    return items;
  }

  /// The same to memory of allocate_host(), which is faster and valid until the next call with it.
  template <class T>
  std::span<const T> download(const T* from, std::size_t count, std::byte* host) {
    device_.download(from, count * sizeof(T), host);
    return {reinterpret_cast<const T*>(host), count};
  }

  /// See Device::allocate_host().
  std::shared_ptr<std::byte> allocate_host(std::size_t bytes) {
    return device_.allocate_host(bytes);
  }

 private:
  template <class T>
  void upload(std::span<const T> items, const T* to) {
    if (!items.empty()) device_.upload(items.data(), items.size_bytes(), const_cast<T*>(to));
  }

  Device& device_;
  Batch batch_;
  std::shared_ptr<std::byte> memory_;
};

}  // namespace kvsim::gpu
