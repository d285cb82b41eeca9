#pragma once

#include <string>
#include <vector>

namespace kvsim {

/// "0-3,7" as 0, 1, 2, 3, 7. Throws UsageError, starting with `option`, for what is no
/// index.
std::vector<int> parse_indices(const std::string& text, const std::string& option);

/// The parts of a comma-separated list. Throws UsageError, starting with `option`, if one is empty.
std::vector<std::string> parse_list(const std::string& text, const std::string& option);

}  // namespace kvsim
