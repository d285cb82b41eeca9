#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/group_reader.h"

namespace kvsim {

/// What each token of a sequence is, as `token_ids` and `token_text` have it; empty if that is not
/// recorded. Shapes and types have been checked.
std::vector<std::int32_t> read_token_ids(const GroupReader& sequence);
std::vector<std::string> read_token_text(const GroupReader& sequence);

}  // namespace kvsim
