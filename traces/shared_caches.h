#pragma once

#include "traces/hdf5/group_reader.h"
#include "traces/trace.h"

namespace kvsim {

/// Lets the layers of a sequence that read the keys and values of another one (Gemma 3n, Gemma 4)
/// be readers of it: its kv_heads, outputs and gradients are then those that all of them have, and
/// readers have no kv_heads. Throws DataError unless that layer is there, comes earlier, has keys
/// and values of its own, and attends as its readers do. `layers`: the group of the layers.
void link_shared_caches(const GroupReader& layers, SequenceInfo& sequence);

}  // namespace kvsim
