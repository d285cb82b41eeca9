#pragma once

#include <string>

namespace kvsim::cli {

/// What `kvsim check` does with a file that is no result file. Returns the exit status. Throws
/// DataError if it is no sound trace.
int check_trace_file(const std::string& file);

}  // namespace kvsim::cli
