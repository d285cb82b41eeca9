#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "traces/unit.h"

namespace kvsim::bench {

struct Shape {
  int tokens = 2048;
  int head_dim = 128;
  int heads = 32;
};

/// Synthetic heads, each a unit with one query head, that have what eviction policies live on:
/// sinks, heavy hitters and, as positions are an autoregression, a preference for what is recent.
/// Policies then differ as on recorded heads, and so does the work of evicting. The same shape and
/// seed give the same heads; head i does not depend on how many there are.
std::vector<Unit> structured_heads(const Shape& shape, std::uint64_t seed);

/// Writes them for other programs: queries, then keys, then values, each [heads, tokens, head_dim]
/// in the machine's float32. Throws std::runtime_error if that fails.
void write_raw(const std::vector<Unit>& heads, const std::filesystem::path& file);

}  // namespace kvsim::bench
