#pragma once

#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// Marks the units of the plan's layers that are measured as a whole: their trace has what the
/// table `layer_error` needs (an output projection, or gradients), all KV heads are recorded and
/// selected, and there is a reference. Counts the layers that lack heads.
void mark_whole_layers(SweepPlan& plan);

/// The layers of the model whose keys and values are their own: LayerError::num_layers.
int num_caches(const Trace& trace, const UnitName& unit);

/// A note on those that lack heads; empty if there are none.
std::string note_of_cut_layers(const SweepPlan& plan);

}  // namespace kvsim
