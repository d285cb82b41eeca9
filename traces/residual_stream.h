#pragma once

#include <string>

#include "traces/trace.h"

namespace kvsim {

/// The residual stream that a layer's attention output is added to, [n, hidden], of which a unit
/// has the squares alone; no rows if the trace lacks the layer or the dataset.
/// Throws DataError for what it cannot read.
Matrix read_residual(const Trace& trace, const std::string& sequence, int layer);

}  // namespace kvsim
