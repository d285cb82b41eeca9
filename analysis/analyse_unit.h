#pragma once

#include <atomic>
#include <span>

#include "analysis/analysis.h"
#include "sim/attention/attention_blocks.h"

namespace kvsim {

struct AnalysisOptions {
  Protocol protocol = {};
  std::int64_t seed = 0;
  const std::atomic<bool>* interrupted =
      nullptr;                            ///< checked once per block; true: throw Interrupted
  const LayerStream* stream = nullptr;    ///< of Subject
  ReadRows read_rows = {};                ///< of Subject
  std::vector<LayerRun> layer_runs = {};  ///< of Subject, of all policies
};

/// Runs the analyses on one unit and returns their rows, parallel to `analyses`. `runs` are replays
/// of the unit, with trajectories, for the analyses that read replays. One pass over the full
/// attention serves all of them; a pass before it computes Subject::total_attention if one of them
/// needs it. Throws Interrupted.
std::vector<std::vector<AnalysisRow>> analyse_unit(const Unit& unit,
                                                   std::span<const AnalysisSpec> analyses,
                                                   const std::vector<PolicyRun>& runs,
                                                   const AnalysisOptions& options,
                                                   const Backend& backend);

}  // namespace kvsim
