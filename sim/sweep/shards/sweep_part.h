#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/sweep/sweep_jobs.h"

namespace kvsim {

/// What is to be replayed of one unit.
struct PartUnit {
  int layer = 0;
  int kv_head = 0;
  std::vector<std::pair<std::size_t, int>> replays;  ///< (index of the policy, budget), in order
};

/// Some jobs on one sequence, as they are described to another process.
struct SweepPart {
  std::size_t trace = 0;  ///< index into the plan's traces
  std::string sequence;
  std::vector<PartUnit> units;  ///< ordered by layer and KV head
};

/// What these jobs of the plan still have to do, a part per sequence. `jobs` are indices into
/// `all`, which is jobs_of(plan).
std::vector<SweepPart> parts_of(const SweepPlan& plan, const std::vector<SweepJob>& all,
                                std::span<const std::size_t> jobs);

/// The plan of the request of which nothing but `part` remains: jobs_of() gives the jobs that the
/// part was made of. The request is that of the part's plan, with the part's trace alone, which
/// is open, and without a shard. Throws what plan_sweep() throws, DataError if the trace lacks a
/// unit.
SweepPlan plan_part(SweepRequest request, const SweepPart& part);

}  // namespace kvsim
