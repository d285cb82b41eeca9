#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "sim/sweep/sweep_jobs.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// Called with the outcomes of one unit as soon as it is finished, by one thread at a time.
using UnitFinished = std::function<void(const PlannedUnit&, std::vector<Outcome>)>;

/// Replays `jobs` of the plan in parallel. After a failure or an interruption no
/// further job begins; finished units have been reported. Then throws the failure of the first such
/// job, or Interrupted.
void run_sweep(const SweepPlan& plan, std::vector<SweepJob> jobs, const Backend& backend,
               const std::atomic<bool>& interrupted, const UnitFinished& finished);

/// The same for all jobs that remain: jobs_of().
void run_sweep(const SweepPlan& plan, const Backend& backend, const std::atomic<bool>& interrupted,
               const UnitFinished& finished);

/// An estimate of the memory that running these jobs of the plan takes on the host, in bytes. A
/// device replays many jobs at once, and as many are read ahead.
std::size_t memory_bytes(const SweepPlan& plan, std::span<const SweepJob> jobs,
                         const Backend& backend);

/// The policies of the plan that the CPU replays because the back-end's device cannot; none if the
/// back-end is the CPU.
std::vector<std::string> policies_on_cpu(const SweepPlan& plan, const Backend& backend);

}  // namespace kvsim
