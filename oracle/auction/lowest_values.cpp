#include "oracle/auction/lowest_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

constexpr float kNoValue = std::numeric_limits<float>::infinity();
constexpr float kHighest = std::numeric_limits<float>::max();

// Lanes, because every update of a single minimum would wait for the last.
constexpr std::size_t kValueLanes = 16;

constexpr std::array<std::uint32_t, kValuesTogether> kValueBits = [] {
  std::array<std::uint32_t, kValuesTogether> bits{};
  for (std::size_t i = 0; i < kValuesTogether; ++i) bits[i] = std::uint32_t{1} << i;
  return bits;
}();

KVSIM_INLINE std::size_t count_values(const float* values, std::size_t size, float limit) {
  std::int32_t count = 0;
  for (std::size_t i = 0; i < size; ++i) count += values[i] <= limit ? 1 : 0;
  return static_cast<std::size_t>(count);
}

// Bisects between the lowest and the highest value until the count fits or no float lies between.
KVSIM_INLINE float limit_of_lowest(const float* values, std::size_t size, float limit) {
  float lows[kValueLanes];
  float highs[kValueLanes];
  std::fill(lows, lows + kValueLanes, kNoValue);
  std::fill(highs, highs + kValueLanes, 0.F);
  for (std::size_t i = 0; i < size; i += kValueLanes) {
    for (std::size_t lane = 0; lane < kValueLanes; ++lane) {
      const float value = values[i + lane];
      const float counted = value <= limit ? value : 0;
      lows[lane] = value < lows[lane] ? value : lows[lane];
      highs[lane] = counted > highs[lane] ? counted : highs[lane];
    }
  }
  float low = *std::min_element(lows, lows + kValueLanes);
  float high = *std::max_element(highs, highs + kValueLanes);
  if (count_values(values, size, limit) <= kMostLowest) return limit;
  constexpr std::size_t kLeast = kMostLowest / 2;
  if (count_values(values, size, low) >= kLeast) return low;
  for (;;) {
    const float middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return high;
    const std::size_t count = count_values(values, size, middle);
    if (count >= kLeast && count <= kMostLowest) return middle;
    (count < kLeast ? low : high) = middle;
  }
}

// Adds the first values from `least` to `most` to those that were found, up to kMostLowest in all.
KVSIM_INLINE std::size_t find_between(const float* values, std::size_t size, float least,
                                      float most, std::size_t count, std::int32_t* found) {
  for (std::size_t begin = 0; begin < size && count < kMostLowest; begin += kValuesTogether) {
    std::uint32_t low = 0;
    for (std::size_t i = 0; i < kValuesTogether; ++i) {
      const float value = values[begin + i];
      low |= value >= least && value <= most ? kValueBits[i] : 0;
    }
    for (; low != 0 && count < kMostLowest; low &= low - 1) {
      found[count++] = static_cast<std::int32_t>(begin) + std::countr_zero(low);
    }
  }
  return count;
}

// More values than fit are at most `limit` only if many equal it: lower ones go first.
KVSIM_INLINE std::size_t find_up_to(const float* values, std::size_t size, float limit,
                                    std::int32_t* found) {
  const std::size_t count = find_between(values, size, 0, limit, 0, found);
  if (count < kMostLowest || limit == 0) return count;
  const float below = std::bit_cast<float>(std::bit_cast<std::uint32_t>(limit) - 1);
  const std::size_t lower = find_between(values, size, 0, below, 0, found);
  return find_between(values, size, limit, limit, lower, found);
}

// Sorts by counting how many come before each, without branches.
template <class Target>
KVSIM_INLINE float order_lowest(const float* values, std::size_t size, float limit,
                                std::size_t* count, std::int32_t* __restrict places) {
  std::int32_t found[kMostLowest];
  const float lowest = limit_of_lowest(values, size, limit);
  *count = find_up_to(values, size, lowest, found);
  // As integers, values from 0 on have the same order.
  std::uint64_t key[kMostLowest];
  for (std::size_t i = 0; i < kMostLowest; ++i) {
    const float value = i < *count ? values[found[i]] : kNoValue;
    key[i] = std::uint64_t{std::bit_cast<std::uint32_t>(value)} << 32 | i;
  }
  std::uint64_t before[kMostLowest] = {};
  for (const std::uint64_t other : key) {
    for (std::size_t i = 0; i < kMostLowest; ++i) before[i] += other < key[i] ? 1 : 0;
  }
  for (std::size_t i = 0; i < *count; ++i) places[before[i]] = found[i];
  return lowest;
}
KVSIM_KERNEL(float, order_lowest,
             (const float* values, std::size_t size, float limit, std::size_t* count,
              std::int32_t* places),
             (values, size, limit, count, places))

template <class Target>
KVSIM_INLINE void leave_out_own(const int* bidder_of, int bidder, const std::int32_t* tokens,
                                std::size_t size, float* __restrict values) {
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = bidder_of[tokens[i]] == bidder ? kNoValue : values[i];
  }
}
KVSIM_KERNEL(void, leave_out_own,
             (const int* bidder_of, int bidder, const std::int32_t* tokens, std::size_t size,
              float* values),
             (bidder_of, bidder, tokens, size, values))

}  // namespace

Lowest find_lowest(std::span<const float> values, float limit, std::int32_t* places) {
  Lowest lowest;
  const float finite = std::min(limit, kHighest);
  lowest.limit = best_order_lowest(values.data(), values.size(), finite, &lowest.count, places);
  if (lowest.limit == finite) lowest.limit = limit;
  return lowest;
}

void leave_out(const int* bidder_of, int bidder, std::span<const std::int32_t> tokens,
               float* values) {
  best_leave_out_own(bidder_of, bidder, tokens.data(), tokens.size(), values);
}

}  // namespace kvsim
