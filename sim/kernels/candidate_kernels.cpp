#include "sim/kernels/candidate_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

// Places that are tested together, one per bit.
constexpr std::size_t kTested = 32;
constexpr std::size_t kSums = 8;

constexpr std::array<std::uint32_t, kTested> kBits = [] {
  std::array<std::uint32_t, kTested> bits{};
  for (std::size_t i = 0; i < kTested; ++i) bits[i] = std::uint32_t{1} << i;
  return bits;
}();

template <class Target>
KVSIM_INLINE std::size_t find_low(const float* cost, std::size_t size, const float* price,
                                  float limit, std::int32_t* __restrict places,
                                  float* __restrict sums) {
  std::size_t found = 0;
  std::size_t begin = 0;
  for (; begin + kTested <= size; begin += kTested) {
    std::uint32_t low = 0;
    for (std::size_t i = 0; i < kTested; ++i) {
      low |= cost[begin + i] + price[begin + i] <= limit ? kBits[i] : 0;
    }
    for (; low != 0; low &= low - 1) {
      const std::size_t i = begin + static_cast<std::size_t>(std::countr_zero(low));
      places[found] = static_cast<std::int32_t>(i);
      sums[found++] = cost[i] + price[i];
    }
  }
  for (std::size_t i = begin; i < size; ++i) {
    if (cost[i] + price[i] > limit) continue;
    places[found] = static_cast<std::int32_t>(i);
    sums[found++] = cost[i] + price[i];
  }
  return found;
}
KVSIM_KERNEL(std::size_t, find_low,
             (const float* cost, std::size_t size, const float* price, float limit,
              std::int32_t* places, float* sums),
             (cost, size, price, limit, places, sums))

template <class Target>
KVSIM_INLINE void add_gathered(const float* cost, const std::int32_t* tokens, std::size_t count,
                               const float* price, float* __restrict sums) {
  for (std::size_t i = 0; i < count; ++i) sums[i] = cost[i] + price[tokens[i]];
}
KVSIM_KERNEL(void, add_gathered,
             (const float* cost, const std::int32_t* tokens, std::size_t count, const float* price,
              float* sums),
             (cost, tokens, count, price, sums))

KVSIM_INLINE std::size_t count_up_to(const float* values, std::size_t size, float limit) {
  std::int32_t count = 0;
  for (std::size_t i = 0; i < size; ++i) count += values[i] <= limit ? 1 : 0;
  return static_cast<std::size_t>(count);
}

// Bisects between the lowest and the highest value until the count fits or no float lies between.
template <class Target>
KVSIM_INLINE float bisect_rank(const float* values, std::size_t size, std::size_t least,
                               std::size_t most) {
  float low = std::numeric_limits<float>::infinity();
  float high = 0;
  for (std::size_t i = 0; i < size; ++i) {
    low = values[i] < low ? values[i] : low;
    high = values[i] > high ? values[i] : high;
  }
  if (count_up_to(values, size, low) >= least) return low;
  for (;;) {
    const float middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return high;
    const std::size_t count = count_up_to(values, size, middle);
    if (count >= least && count <= most) return middle;
    (count < least ? low : high) = middle;
  }
}
KVSIM_KERNEL(float, bisect_rank,
             (const float* values, std::size_t size, std::size_t least, std::size_t most),
             (values, size, least, most))

template <class Target>
KVSIM_INLINE double lowest_of(const float* cost, const double* price, std::size_t size) {
  double least[kSums];
  std::fill(least, least + kSums, std::numeric_limits<double>::infinity());
  std::size_t i = 0;
  for (; i + kSums <= size; i += kSums) {
    for (std::size_t lane = 0; lane < kSums; ++lane) {
      const double sum = static_cast<double>(cost[i + lane]) + price[i + lane];
      least[lane] = sum < least[lane] ? sum : least[lane];
    }
  }
  for (; i < size; ++i) least[0] = std::min(least[0], static_cast<double>(cost[i]) + price[i]);
  return *std::min_element(least, least + kSums);
}
KVSIM_KERNEL(double, lowest_of, (const float* cost, const double* price, std::size_t size),
             (cost, price, size))

}  // namespace

std::size_t find_at_most(std::span<const float> cost, const float* price, float limit,
                         std::int32_t* places, float* sums) {
  return best_find_low(cost.data(), cost.size(), price, limit, places, sums);
}

void add_prices(const float* cost, const std::int32_t* tokens, std::size_t count,
                const float* price, float* sums) {
  best_add_gathered(cost, tokens, count, price, sums);
}

float limit_of_rank(std::span<const float> values, std::size_t least, std::size_t most) {
  return best_bisect_rank(values.data(), values.size(), least, most);
}

double lowest_sum(std::span<const float> cost, const double* price) {
  return best_lowest_of(cost.data(), price, cost.size());
}

}  // namespace kvsim
