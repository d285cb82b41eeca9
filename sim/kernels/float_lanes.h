#pragma once

#include <cstdint>
#include <cstring>

#include "sim/kernels/vector_targets.h"

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

/// Loads floats as doubles.
template <class Target>
KVSIM_INLINE void load_as_doubles(typename Vectors<Target>::Doubles& doubles, const float* from) {
  typename Vectors<Target>::HalfFloats floats;
  load(floats, from);
  doubles = __builtin_convertvector(floats, typename Vectors<Target>::Doubles);
}

}  // namespace kvsim
