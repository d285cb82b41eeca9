#include "gpu/device_backend.h"

#include "gpu/batch_replay.h"
#include "gpu/device_pass.h"

namespace kvsim::gpu {
namespace {

class DeviceBackend final : public Backend, public DeviceReplays {
 public:
  DeviceBackend(std::string name, std::function<std::unique_ptr<Device>()> make_device)
      : name_(std::move(name)), make_device_(std::move(make_device)) {}

  std::string device() const override { return name_; }

  std::unique_ptr<AttentionPass> attend(const Unit& unit) const override {
    return make_device_pass(make_device_(), unit);
  }

  const DeviceReplays* replays() const override { return this; }

  bool can_replay(const Rules& rules) const override { return gpu::can_replay(rules); }

  std::size_t units_at_once(const ReplayShape& shape, int threads) const override {
    return gpu::units_at_once(shape, make_device_()->free_bytes() / threads);
  }

  std::vector<std::vector<Outcome>> replay(std::span<const UnitReplays> units,
                                           const ReplayOptions& options) const override {
    return replay_on(*make_device_(), units, options);
  }

 private:
  std::string name_;
  std::function<std::unique_ptr<Device>()> make_device_;
};

}  // namespace

std::unique_ptr<Backend> make_device_backend(std::string name,
                                             std::function<std::unique_ptr<Device>()> make_device) {
  return std::make_unique<DeviceBackend>(std::move(name), std::move(make_device));
}

}  // namespace kvsim::gpu
