#pragma once

#include <cstdint>
#include <vector>

#include "sim/sweep/sweep_jobs.h"

namespace kvsim {

/// Jobs that are done in one place: one job, or all that need the same measurements of a sequence.
struct WorkItem {
  std::vector<std::size_t> jobs;  ///< indices into the jobs, ascending
  std::int64_t nanoseconds = 0;   ///< estimated
};

/// The smallest parts into which these jobs can be partitioned, in the order of their first jobs.
std::vector<WorkItem> work_items(const SweepPlan& plan, const std::vector<SweepJob>& jobs);

}  // namespace kvsim
