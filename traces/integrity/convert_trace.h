#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "traces/trace.h"

namespace kvsim {

/// What convert_trace() did not write: absolute paths of groups and datasets, and "PATH: attribute
/// NAME", that the format does not know. Sorted.
using LeftOut = std::vector<std::string>;

/// Writes a trace of any version to `file`, which is another one, in the newest version, chunked
/// and packed as the writers do: the same numbers in the same element types, heads and layers that
/// are missing stay missing. The trace_id of a file of version 1 becomes `trace_id_v1`; one of
/// version 2 keeps its own. Each number is read once and checked as everywhere. `report` is called
/// after each head with how many of all are done, and may throw; then no file is left. Throws
/// DataError, or std::runtime_error if the file cannot be written.
LeftOut convert_trace(const Trace& trace, const std::filesystem::path& file,
                      const std::function<void(std::size_t done, std::size_t total)>& report = {});

}  // namespace kvsim
