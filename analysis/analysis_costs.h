#pragma once

#include <cstdint>
#include <vector>

#include "analysis/run_analyses.h"

namespace kvsim {

/// Estimates of the time that units' analyses and their replays take on one core, in nanoseconds;
/// sim/sweep/shards/README.md says how they were measured. Depends on the plan alone.
class AnalysisCosts {
 public:
  /// `replays` says whether the replays of the plan are run. `plan` has to outlive the object.
  AnalysisCosts(const AnalysisPlan& plan, bool replays);

  /// Of a unit of the plan.
  std::int64_t of(const PlannedUnit& planned) const;

 private:
  const AnalysisPlan& plan_;
  std::vector<std::int64_t> of_replays_;  // parallel to the units
};

}  // namespace kvsim
