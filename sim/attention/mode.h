#pragma once

#include <cstdint>
#include <limits>

namespace kvsim {

/// The protocol of a replay.
enum class Mode {
  stream,  ///< every step evicts; every step is measured
  prefill  ///< the prompt attends in full, then evicts once; later steps are measured
};

/// The first step that is measured: the one after the prompt, or step 0 in stream mode.
constexpr int first_measured(Mode mode, int prompt_length) {
  return mode == Mode::prefill ? prompt_length : 0;
}

/// The eviction interval of a cache that evicts at the end of the prompt and never again.
inline constexpr int kNeverEvict = std::numeric_limits<int>::max();

/// The most tokens that a cache may hold after a step without evicting. One that holds more evicts
/// down to its budget. The end of a prompt always cuts down to the budget; between other evictions
/// the cache may grow by `interval` - 1 tokens beyond it.
constexpr int most_held(int budget, int interval, bool is_prompt_end) {
  if (is_prompt_end) return budget;
  const std::int64_t held = std::int64_t{budget} + interval - 1;
  return held < kNeverEvict ? static_cast<int>(held) : kNeverEvict;
}

}  // namespace kvsim
