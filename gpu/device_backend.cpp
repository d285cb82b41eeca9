#include "gpu/device_backend.h"

#include <mutex>
#include <shared_mutex>

#include "gpu/batch_replay.h"
#include "gpu/device_pass.h"
#include "gpu/device_pool.h"
#include "gpu/summaries.h"

namespace kvsim::gpu {
namespace {

class DeviceBackend final : public Backend, public DeviceReplays, public DeviceSummaries {
 public:
  DeviceBackend(std::string name, std::function<std::unique_ptr<Device>()> make_device)
      : name_(std::move(name)), devices_(DevicePool::make(std::move(make_device))) {}

  std::string device() const override { return name_; }

  std::unique_ptr<AttentionPass> attend(const Unit& unit) const override {
    return make_device_pass(devices_->take(), unit);
  }

  const DeviceReplays* replays() const override { return this; }
  const DeviceSummaries* summaries() const override { return this; }

  bool can_replay(const Rules& rules, const Protocol& protocol) const override {
    return gpu::can_replay(rules, protocol);
  }

  std::vector<std::int64_t> count_small(const Unit& unit, double threshold) const override {
    return gpu::count_small(*devices_->take(), unit, threshold);
  }

  std::vector<std::vector<PivotalSteps>> pivotal_steps(
      const Unit& unit, const PivotalThreshold& threshold) const override {
    return gpu::pivotal_steps(*devices_->take(), unit, threshold);
  }

  FutureSums future_sums(const Unit& unit, int first_measured) const override {
    return gpu::future_sums(*devices_->take(), unit, first_measured);
  }

  // A tenth of the free memory is left for CUDA and cuBLAS.
  std::size_t units_at_once(const ReplayShape& shape, std::span<const Rules> rules,
                            int threads) const override {
    const std::size_t free_bytes = devices_->take()->free_bytes() / 10 * 9;
    return gpu::units_at_once(shape, rules, free_bytes / static_cast<std::size_t>(threads));
  }

  // Units that do not fit next to the batches of other threads are replayed again with the device
  // to themselves.
  std::vector<std::vector<Outcome>> replay(std::span<const UnitReplays> units,
                                           const ReplayOptions& options) const override {
    try {
      const std::shared_lock<std::shared_mutex> lock(batches_);
      return replay_on(*devices_->take(), units, options);
    } catch (const OutOfDeviceMemory&) {
    }
    const std::unique_lock<std::shared_mutex> lock(batches_);
    return replay_on(*devices_->take(), units, options);
  }

 private:
  std::string name_;
  std::shared_ptr<DevicePool> devices_;
  mutable std::shared_mutex batches_;
};

}  // namespace

std::unique_ptr<Backend> make_device_backend(std::string name,
                                             std::function<std::unique_ptr<Device>()> make_device) {
  return std::make_unique<DeviceBackend>(std::move(name), std::move(make_device));
}

}  // namespace kvsim::gpu
