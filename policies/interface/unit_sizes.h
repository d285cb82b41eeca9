#pragma once

#include <algorithm>
#include <cstdint>

namespace kvsim {

/// The sizes of a unit on which the time of its replays depends.
struct UnitSizes {
  std::int64_t tokens = 0;
  std::int64_t steps = 0;  ///< measured ones, the last of the text
  std::int64_t group = 1;
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t hidden = 0;     ///< columns of an output projection that is applied; 0: none
  std::int64_t gradients = 0;  ///< samples that are read

  std::int64_t dims() const { return head_dim + value_dim; }

  /// Steps and the tokens that they see, of the full attention.
  std::int64_t pairs() const { return tokens * (tokens + 1) / 2; }

  /// The same of a cache that holds at most so many tokens, over the measured steps.
  std::int64_t attended(std::int64_t held) const {
    const std::int64_t growing = std::clamp<std::int64_t>(held - (tokens - steps), 0, steps);
    return steps * held - growing * growing / 2;
  }
};

}  // namespace kvsim
