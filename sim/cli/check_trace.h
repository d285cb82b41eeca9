#pragma once

#include <string>

namespace kvsim::cli {

/// What `kvsim check` does with a file that is no result file. Returns the exit status. Throws
/// DataError if it is no sound trace, UsageError if `renews`: the digests of traces are not
/// renewed.
int check_trace_file(const std::string& file, bool renews);

}  // namespace kvsim::cli
