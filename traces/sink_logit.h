#pragma once

#include <vector>

#include "traces/hdf5/group_reader.h"

namespace kvsim {

/// Reads the dataset `sink_logit` of a layer, one number per query head of the layer; empty if not
/// recorded. Throws DataError unless it is float16 or float32, of this shape, and finite.
std::vector<float> read_sink_logit(const GroupReader& layer, int query_heads);

}  // namespace kvsim
