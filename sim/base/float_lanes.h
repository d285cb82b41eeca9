#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "sim/base/vector_targets.h"

namespace kvsim {

// Vectors as wide as a register. gcc keeps wider ones in memory, which costs a factor of thirty.
// GCC ignores a vector_size that depends on a template's parameter, hence the specialisations.

/// The vectors of one instruction set: Floats and Ints fill a register, Doubles and Longs too.
/// HalfFloats are as many floats as Doubles are doubles.
template <class Target>
struct Vectors {
  using Floats = float __attribute__((vector_size(16)));
  using HalfFloats = float __attribute__((vector_size(8)));
  using Ints = std::int32_t __attribute__((vector_size(16)));
  using Doubles = double __attribute__((vector_size(16)));
  using Longs = std::int64_t __attribute__((vector_size(16)));
};
template <>
struct Vectors<Avx2> {
  using Floats = float __attribute__((vector_size(32)));
  using HalfFloats = float __attribute__((vector_size(16)));
  using Ints = std::int32_t __attribute__((vector_size(32)));
  using Doubles = double __attribute__((vector_size(32)));
  using Longs = std::int64_t __attribute__((vector_size(32)));
};
template <>
struct Vectors<Avx512> {
  using Floats = float __attribute__((vector_size(64)));
  using HalfFloats = float __attribute__((vector_size(32)));
  using Ints = std::int32_t __attribute__((vector_size(64)));
  using Doubles = double __attribute__((vector_size(64)));
  using Longs = std::int64_t __attribute__((vector_size(64)));
};

template <class Target>
inline constexpr int kFloats = sizeof(typename Vectors<Target>::Floats) / sizeof(float);
template <class Target>
inline constexpr int kDoubles = kFloats<Target> / 2;

template <class Vector, class Number>
KVSIM_INLINE void load(Vector& vector, const Number* from) {
  std::memcpy(&vector, from, sizeof vector);
}

template <class Vector, class Number>
KVSIM_INLINE void store(const Vector& vector, Number* to) {
  std::memcpy(to, &vector, sizeof vector);
}

/// to[i] = from[first + i] for every element of the vector `to`; `from` is a vector or a pointer.
/// gcc 12 splits __builtin_convertvector() into vectors of the baseline, even where it inlines it
/// for a wider instruction set; of single elements it makes one instruction.
template <std::size_t first = 0, class Vector, class From>
KVSIM_INLINE void convert(Vector& to, const From& from) {
  using Number = std::remove_cvref_t<decltype(to[0])>;
  const auto set = [&]<std::size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
    to = Vector{static_cast<Number>(from[first + i])...};
  };
  set(std::make_index_sequence<sizeof(Vector) / sizeof(Number)>());
}

}  // namespace kvsim
