#include <catch2/catch.hpp>

#include "sim/sweep/device_replays.h"
#include "sim/sweep/replay_jobs.h"
#include "tests/support/units.h"

namespace kvsim::selections_test {

/// Replays everything and tells of no selection, as devices do.
class Device final : public Backend, public DeviceReplays {
 public:
  std::string device() const override { return "a device"; }
  std::unique_ptr<AttentionPass> attend(const Unit& unit) const override {
    return cpu_->attend(unit);
  }
  const DeviceReplays* replays() const override { return this; }

  bool can_replay(const Rules&, const Protocol&) const override { return true; }
  std::size_t units_at_once(const ReplayShape&, std::span<const Rules>, int) const override {
    return 1;
  }
  std::vector<std::vector<Outcome>> replay(std::span<const UnitReplays> units,
                                           const ReplayOptions& options) const override {
    std::vector<std::vector<Outcome>> outcomes;
    for (const UnitReplays& unit : units) {
      const std::vector<Configuration> configurations(unit.configurations.begin(),
                                                      unit.configurations.end());
      ReplayOptions own = options;
      own.selections = false;
      outcomes.push_back(kvsim::replay(*unit.unit, configurations, own, *cpu_));
    }
    return outcomes;
  }

 private:
  std::unique_ptr<Backend> cpu_ = make_cpu_backend();
};

TEST_CASE("what a policy selects is found on the CPU, though a device could replay it", "[sweep]") {
  const std::vector<ReplayJob> jobs{{.units = {test_support::random_unit({.tokens = 20}, 1)},
                                     .configurations = {{.policy = Spec("topk"), .budget = 5},
                                                        {.policy = Spec("h2o"), .budget = 5}}}};
  ReplayOptions options{.trajectories = true, .selections = true};
  const auto outcomes = replay_jobs(jobs, options, Device());
  CHECK(outcomes[0][0][0].result.device == "cpu");
  CHECK(outcomes[0][0][0].trajectory.selected_begin.size() == 21);
  CHECK(outcomes[0][1][0].result.device == "a device");
  options.selections = false;
  CHECK(replay_jobs(jobs, options, Device())[0][0][0].result.device == "a device");
}

}  // namespace kvsim::selections_test
