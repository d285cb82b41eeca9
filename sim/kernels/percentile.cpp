#include "sim/kernels/percentile.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

struct Neighbours {
  float below;
  float above;
};

template <class Target>
KVSIM_INLINE std::int32_t count_up_to(const float* numbers, std::int32_t count, float limit) {
  std::int32_t below = 0;
  for (std::int32_t i = 0; i < count; ++i) below += numbers[i] <= limit ? 1 : 0;
  return below;
}
KVSIM_KERNEL(std::int32_t, count_up_to, (const float* numbers, std::int32_t count, float limit),
             (numbers, count, limit))

// The greatest number <= limit and the smallest number above it. Compares unsigned distances of bit
// patterns; those of numbers on the wrong side wrap around and are larger than any other.
template <class Target>
KVSIM_INLINE Neighbours find_neighbours(const float* numbers, std::int32_t count, float limit) {
  const auto at = std::bit_cast<std::uint32_t>(limit);
  std::uint32_t down = at;
  std::uint32_t up = std::numeric_limits<std::uint32_t>::max() - at - 1;
  for (std::int32_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(numbers[i]);
    down = at - bits < down ? at - bits : down;
    up = bits - at - 1 < up ? bits - at - 1 : up;
  }
  return {std::bit_cast<float>(at - down), std::bit_cast<float>(at + 1 + up)};
}
KVSIM_KERNEL(Neighbours, find_neighbours, (const float* numbers, std::int32_t count, float limit),
             (numbers, count, limit))

}  // namespace

double percentile(const std::vector<double>& sorted, double rank) {
  const double position = rank * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Percentiles::Percentiles(std::span<const float> numbers, std::size_t num_zeros)
    : numbers_(numbers), num_zeros_(num_zeros) {
  constexpr float kMaxFloat = std::numeric_limits<float>::max();
  largest_ =
      best_find_neighbours(numbers.data(), static_cast<std::int32_t>(numbers.size()), kMaxFloat)
          .below;
}

double Percentiles::at(double rank) const {
  const double position = rank * static_cast<double>(numbers_.size() + num_zeros_ - 1);
  const double share = position - std::floor(position);
  const auto place = static_cast<std::int64_t>(position) - static_cast<std::int64_t>(num_zeros_);
  if (place < -1) return 0;
  // Bisects for a limit that exactly place + 1 numbers do not exceed or, among equal numbers, the
  // smallest limit that more do not exceed.
  const auto size = static_cast<std::int32_t>(numbers_.size());
  std::int32_t low = 0;
  auto limit = std::bit_cast<std::int32_t>(largest_);
  std::int32_t within = size;
  while (low < limit && within != place + 1) {
    const std::int32_t middle = low + (limit - low) / 2;
    const std::int32_t count =
        best_count_up_to(numbers_.data(), size, std::bit_cast<float>(middle));
    if (count > place) {
      limit = middle;
      within = count;
    } else {
      low = middle + 1;
    }
  }
  const auto [below, above] =
      best_find_neighbours(numbers_.data(), size, std::bit_cast<float>(limit));
  const double value = place < 0 ? 0 : below;
  const double next = within > place + 1 ? value : above;
  return share == 0 ? value : value + share * (next - value);
}

}  // namespace kvsim
