#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace kvsim {

/// Allocates whole cache lines: a vector as wide as a line then lies in one, which a kernel loads
/// and stores in half of the time that two take.
template <class Number>
struct LineAllocator {
  using value_type = Number;
  static constexpr std::align_val_t kLine{64};

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
