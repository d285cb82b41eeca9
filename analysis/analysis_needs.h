#pragma once

#include <vector>

#include "analysis/analysis.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// Throws UsageError if the analysis looks at replays and too few of the policies are for it.
void check_policies(const AnalysisInfo& info, const std::vector<Spec>& policies);

/// Throws DataError, naming the dataset, if a trace lacks what the analysis needs of one of the
/// plan's units, and UsageError if the selection leaves out the unit that stands for a layer.
void check_traces(const AnalysisInfo& info, const SweepPlan& plan);

/// Whether the unit stands for its layer: an analysis of a layer has its rows there.
bool stands_for_layer(const Trace& trace, const UnitName& name);

}  // namespace kvsim
