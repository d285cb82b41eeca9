#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace kvsim {

inline constexpr std::size_t kCacheLine = 64;  ///< bytes

/// Allocates from the beginning of a cache line: a vector as wide as a line then lies in one, where
/// it would otherwise lie in two.
template <class Number>
struct LineAllocator {
  using value_type = Number;
  static constexpr std::align_val_t kLine{kCacheLine};

  LineAllocator() = default;
  template <class Other>
  LineAllocator(const LineAllocator<Other>&) {}

  Number* allocate(std::size_t count) {
    return static_cast<Number*>(::operator new(count * sizeof(Number), kLine));
  }
  void deallocate(Number* numbers, std::size_t) { ::operator delete(numbers, kLine); }

  bool operator==(const LineAllocator&) const = default;
};

/// A vector of numbers that starts with a cache line.
template <class Number>
using AlignedVector = std::vector<Number, LineAllocator<Number>>;

}  // namespace kvsim
