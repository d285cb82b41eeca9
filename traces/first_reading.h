#pragma once

#include <vector>

#include "traces/hdf5/group_reader.h"
#include "traces/trace.h"

namespace kvsim {

/// Reads what only the library can decode, as units are read later: tokens and their text, and
/// heads that are packed by other filters or many to a chunk. For the child of traces/guard, where
/// a crash of the library does no harm. Throws DataError. The caller does not hold the Hdf5Lock.
void read_by_library(const GroupReader& root, const std::vector<SequenceInfo>& sequences);

}  // namespace kvsim
