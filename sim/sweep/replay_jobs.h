#pragma once

#include <span>
#include <vector>

#include "sim/replay/replay.h"

namespace kvsim {

/// The arguments of replay_together(): units of one sequence, and configurations.
struct ReplayJob {
  std::vector<Unit> units;
  std::vector<Configuration> configurations;
  bool whole_layers = false;  ///< see ReplayOptions
};

/// [configuration][unit] of a job.
using JobOutcomes = std::vector<std::vector<Outcome>>;

/// Replays jobs: on the back-end's device what it can replay, the rest on the CPU. Fills in
/// Result::device. Throws what replay_together() and DeviceReplays::replay() throw.
std::vector<JobOutcomes> replay_jobs(std::span<const ReplayJob> jobs, const ReplayOptions& options,
                                     const Backend& backend);

}  // namespace kvsim
