#pragma once

#include <filesystem>
#include <vector>

#include "tests/bench/cases.h"
#include "traces/trace.h"

namespace kvsim::bench {

/// Writes the heads as a recorder does, in float16 with its default filters: one layer, a KV head
/// per head.
void write_trace(const std::vector<Unit>& heads, const std::filesystem::path& file);

/// The case on heads that are read from the trace first.
Case with_reading(const Case& in_memory, const char* id, const char* title, const Trace& trace);

}  // namespace kvsim::bench
