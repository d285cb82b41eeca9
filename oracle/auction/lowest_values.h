#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvsim {

/// Lists of values have a multiple of this many, padded with infinities.
inline constexpr std::size_t kValuesTogether = 32;

/// The most values that find_lowest() finds.
inline constexpr std::size_t kMostLowest = 16;

/// What find_lowest() found.
struct Lowest {
  std::size_t count = 0;
  float limit = 0;  ///< values that were not found are above it, or equal
};

/// Finds the lowest values that are at most `limit`, all or from half of kMostLowest to
/// kMostLowest of them: their places by rising value, the lower place first among equals. A value
/// that is not found is not lower than any that is. Values are at least 0, and infinity is none.
Lowest find_lowest(std::span<const float> values, float limit, std::int32_t* places);

/// values[i] becomes infinity where bidder_of[tokens[i]] is `bidder`.
void leave_out(const int* bidder_of, int bidder, std::span<const std::int32_t> tokens,
               float* values);

}  // namespace kvsim
