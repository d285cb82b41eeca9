#pragma once

#include <cstdint>

#include "sim/sweep/sweep_jobs.h"

namespace kvsim {

/// An estimate of the time that a job takes on one core, in nanoseconds of a recent server core.
/// Depends on the plan alone, in whole numbers: every machine estimates alike.
std::int64_t estimated_nanoseconds(const SweepPlan& plan, const SweepJob& job);

}  // namespace kvsim
