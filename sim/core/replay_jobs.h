#pragma once

#include <span>
#include <vector>

#include "sim/core/replay.h"

namespace kvsim {

/// What replay_together() takes.
struct ReplayJob {
  std::vector<Unit> units;
  std::vector<Configuration> configurations;
};

/// Per configuration and unit of a job.
using JobOutcomes = std::vector<std::vector<Outcome>>;

/// Replays jobs, what the back-end's device replays by itself there and all else on the CPU.
/// Results name the device.
std::vector<JobOutcomes> replay_jobs(std::span<const ReplayJob> jobs, const ReplayOptions& options,
                                     const Backend& backend);

}  // namespace kvsim
