#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/hdf5/group_reader.h"

namespace kvsim {

/// Read the datasets `token_ids` and `token_text` of a sequence, one entry per token; empty if not
/// recorded. read_sequences() has checked their shapes and types. Throw DataError.
std::vector<std::int32_t> read_token_ids(const GroupReader& sequence);
std::vector<std::string> read_token_text(const GroupReader& sequence, int tokens);

}  // namespace kvsim
