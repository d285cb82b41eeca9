#include "gpu/half_vectors.h"

#include <algorithm>

namespace kvsim::gpu {
namespace {

bool is_half(const Matrix& numbers) {
  return std::all_of(numbers.data(), numbers.data() + numbers.size(),
                     [](float x) { return static_cast<float>(static_cast<Eigen::half>(x)) == x; });
}

}  // namespace

bool has_half_vectors(const Unit& unit) {
  return is_half(unit.key) && std::ranges::all_of(unit.query, is_half);
}

std::vector<std::uint16_t> half_bits(std::span<const float> numbers) {
  std::vector<std::uint16_t> bits;
  bits.reserve(numbers.size());
  for (const float x : numbers) {
    bits.push_back(Eigen::numext::bit_cast<std::uint16_t>(static_cast<Eigen::half>(x)));
  }
  return bits;
}

}  // namespace kvsim::gpu
