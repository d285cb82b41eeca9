#pragma once

#include <vector>

#include "traces/hdf5/group_reader.h"
#include "traces/trace.h"

namespace kvsim {

/// Reads the optional group `spans` of a sequence of so many tokens, in the order of the file.
/// Throws DataError unless `start` and `end` are int32 and `label` UTF-8, all of one length, and
/// every span has at least one token, all within the sequence.
std::vector<Span> read_spans(const GroupReader& sequence, int tokens);

}  // namespace kvsim
