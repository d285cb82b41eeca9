#include "sim/sweep/replay_jobs.h"

#include "sim/replay/replay_checks.h"
#include "sim/sweep/device_replays.h"

namespace kvsim {
namespace {

/// The configurations of a job that one device replays, and their indices in the job.
struct Part {
  std::vector<Configuration> configurations;
  std::vector<std::size_t> places;

  void add(const Configuration& configuration, std::size_t place) {
    configurations.push_back(configuration);
    places.push_back(place);
  }
};

void name_device(const std::string& device, JobOutcomes& outcomes) {
  for (std::vector<Outcome>& of_configuration : outcomes) {
    for (Outcome& outcome : of_configuration) outcome.result.device = device;
  }
}

void replay_on_device(std::span<const ReplayJob> jobs, std::span<const Part> parts,
                      const ReplayOptions& options, const Backend& backend,
                      std::vector<JobOutcomes>& outcomes) {
  std::vector<UnitReplays> units;
  std::vector<std::size_t> of_job;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (parts[i].configurations.empty()) continue;
    const Unit& unit = jobs[i].units.front();
    check_text(options.protocol, unit.name.sequence, unit.num_tokens(), unit.prompt_length);
    units.push_back({&unit, parts[i].configurations});
    of_job.push_back(i);
  }
  if (units.empty()) return;
  JobOutcomes replayed = backend.replays()->replay(units, options);
  name_device(backend.device(), replayed);
  for (std::size_t u = 0; u < units.size(); ++u) {
    const std::vector<std::size_t>& places = parts[of_job[u]].places;
    for (std::size_t c = 0; c < places.size(); ++c) {
      outcomes[of_job[u]][places[c]].push_back(std::move(replayed[u][c]));
    }
  }
}

}  // namespace

std::vector<JobOutcomes> replay_jobs(std::span<const ReplayJob> jobs, const ReplayOptions& options,
                                     const Backend& backend) {
  const bool has_reference = options.protocol.has_reference();
  const DeviceReplays* device = has_reference ? backend.replays() : nullptr;
  std::vector<Part> on_device(jobs.size());
  std::vector<Part> on_cpu(jobs.size());
  std::vector<JobOutcomes> outcomes;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::vector<Configuration>& configurations = jobs[i].configurations;
    const bool on_cpu_alone = device == nullptr || jobs[i].units.front().weighs_outputs();
    outcomes.emplace_back(configurations.size());
    for (std::size_t c = 0; c < configurations.size(); ++c) {
      const Configuration own = configurations[c].part(0, 1);
      const Rules rules = own.policy.rules({.budget = own.budget});
      const bool tells_selection = options.selections && rules.selects;  // no device does
      if (!on_cpu_alone && !tells_selection && device->can_replay(rules, options.protocol)) {
        on_device[i].add(own, c);
      } else {
        on_cpu[i].add(configurations[c], c);
      }
    }
  }
  if (device != nullptr) replay_on_device(jobs, on_device, options, backend, outcomes);
  // If the device replays policies, the CPU replays the rest; oracles still plan on the device.
  const auto cpu = make_cpu_backend();
  const Backend& rest = device != nullptr ? *cpu : backend;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Part& part = on_cpu[i];
    if (part.configurations.empty()) continue;
    ReplayOptions own = options;
    own.whole_layers = jobs[i].whole_layers;
    JobOutcomes replayed = replay_together(jobs[i].units, part.configurations, own, rest, &backend);
    name_device(has_reference ? rest.device() : cpu->device(), replayed);
    for (std::size_t c = 0; c < part.places.size(); ++c) {
      outcomes[i][part.places[c]] = std::move(replayed[c]);
    }
  }
  return outcomes;
}

}  // namespace kvsim
