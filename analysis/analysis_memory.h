#pragma once

#include <cstddef>

#include "analysis/run_analyses.h"
#include "sim/sweep/sweep_jobs.h"

namespace kvsim {

/// What the analyses of one unit of this job take beyond its replays, in bytes: their own state and
/// the rows of their tables. They run after the replays, whose memory is free by then.
std::size_t analysis_bytes(const AnalysisPlan& plan, const SweepJob& job, const ReplayShape& shape);

}  // namespace kvsim
