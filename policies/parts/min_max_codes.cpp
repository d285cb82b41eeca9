#include "policies/parts/min_max_codes.h"

#include <algorithm>
#include <cmath>

#include "policies/parts/half.h"

namespace kvsim {

void round_min_max(std::span<float> numbers, int bits, int element_bytes) {
  if (numbers.empty()) return;
  const auto stored = [&](float x) { return element_bytes == 2 ? round_to_half(x) : x; };
  const auto [least_place, largest_place] = std::minmax_element(numbers.begin(), numbers.end());
  const float least = stored(*least_place);
  const float largest = stored(*largest_place);
  const auto levels = static_cast<float>((1 << bits) - 1);
  const float step = stored(stored(largest - least) / levels);
  for (float& x : numbers) {
    // Where all numbers are equal, 0 / 0 is no number; any code then restores the least.
    const float code = step == 0 ? 0 : stored(stored(stored(x) - least) / step);
    x = step * std::nearbyint(std::clamp(code, 0.F, levels)) + least;
  }
}

void round_min_max(std::span<float> numbers, int group, int bits, int element_bytes) {
  while (!numbers.empty()) {
    const auto run = numbers.first(std::min(numbers.size(), static_cast<std::size_t>(group)));
    round_min_max(run, bits, element_bytes);
    numbers = numbers.subspan(run.size());
  }
}

std::size_t bytes_of_codes(std::size_t count, int bits) {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

std::size_t bytes_of_min_max(std::size_t dim, int group, int bits, int element_bytes) {
  const auto size = static_cast<std::size_t>(group);
  const std::size_t num_groups = (dim + size - 1) / size;
  return bytes_of_codes(dim, bits) + num_groups * 2 * static_cast<std::size_t>(element_bytes);
}

}  // namespace kvsim
