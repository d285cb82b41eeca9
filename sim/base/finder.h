#pragma once

#include <functional>
#include <string_view>

namespace kvsim {

/// Looks for a name that a table lacks, as in the packages that are installed, and registers what
/// has it. Returns whether it did. Throws UsageError if there is such a one that does not work.
using Finder = std::function<bool(std::string_view name)>;

}  // namespace kvsim
