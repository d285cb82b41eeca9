#pragma once

#include <string>
#include <vector>

#include "traces/group_reader.h"

namespace kvsim {

/// The text of each token of a sequence whose shape and type have been checked; empty if it is not
/// recorded.
std::vector<std::string> read_token_text(const GroupReader& sequence);

}  // namespace kvsim
