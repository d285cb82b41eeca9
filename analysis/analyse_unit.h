#pragma once

#include <atomic>
#include <span>

#include "analysis/analysis.h"
#include "sim/core/attention_blocks.h"

namespace kvsim {

struct AnalysisOptions {
  Mode mode = Mode::stream;
  std::int64_t seed = 0;
  const std::atomic<bool>* interrupted = nullptr;  ///< checked now and then; true ends the work
};

/// The rows that each of the analyses finds on one unit. `runs` are replays of it with their
/// trajectories, for analyses that look at some. The attention is computed once for all, and once
/// more before if one of them looks ahead. Throws Interrupted.
std::vector<std::vector<AnalysisRow>> analyse_unit(const Unit& unit,
                                                   std::span<const AnalysisSpec> analyses,
                                                   const std::vector<PolicyRun>& runs,
                                                   const AnalysisOptions& options,
                                                   const Backend& backend);

}  // namespace kvsim
