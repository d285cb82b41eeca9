#pragma once

#include <filesystem>

namespace kvsim {

/// Makes the file a sound trace of version 2: gives each dataset of the format that lacks it the
/// attribute `digests`, and writes /manifest and `trace_id` in place of older ones. The file is one
/// that nobody else has open and that holds all else. Throws DataError, or std::runtime_error if it
/// cannot be written.
void seal_trace(const std::filesystem::path& file);

}  // namespace kvsim
