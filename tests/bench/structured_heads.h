#pragma once

#include <cstdint>
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

}  // namespace kvsim::bench
