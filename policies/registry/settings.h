#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvsim {

/// Names and values of "key=value,key=value", in the order written.
using Settings = std::vector<std::pair<std::string_view, std::string_view>>;

/// Throws UsageError, which starts with `owner`, for a part without '=' and for a name given twice.
Settings parse_settings(std::string_view text, const std::string& owner);

}  // namespace kvsim
