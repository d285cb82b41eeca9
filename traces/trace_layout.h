#pragma once

#include <vector>

#include "traces/hdf5/group_reader.h"
#include "traces/layer_data.h"
#include "traces/trace.h"

namespace kvsim {

/// The version of the format, 1 or 2. Throws DataError.
int read_version(const GroupReader& root);

/// Reads and checks the attributes of the file and the group /rope. Throws DataError.
TraceHeader read_header(const GroupReader& root);

/// Lists what every sequence holds and checks all but the recorded numbers. Throws DataError.
std::vector<SequenceInfo> read_sequences(const GroupReader& root, const TraceHeader& header);

/// The group of one layer of a sequence that read_sequences() has listed.
GroupReader layer_group(const GroupReader& root, const SequenceInfo& sequence,
                        const LayerInfo& layer);

/// Opens the datasets of one layer of a sequence that read_sequences() has listed.
LayerData open_layer(const GroupReader& root, const SequenceInfo& sequence, const LayerInfo& layer);

}  // namespace kvsim
