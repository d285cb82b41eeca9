#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/base/float_lanes.h"
#include "sim/kernels/value_kernels.h"

namespace kvsim {

/// A sliding window over this array masks the rows before EvictedTerm::first_row.
inline constexpr auto kRowMasks = [] {
  std::array<std::int32_t, 2 * kBlockSteps> masks{};
  for (int i = kBlockSteps; i < 2 * kBlockSteps; ++i) masks[i] = -1;
  return masks;
}();

/// The weights and values of tokens that a tile is summed over, from its first dimension on.
struct TileOperands {
  const float* weight;  // [tokens, kBlockSteps]
  const float* value;   // [tokens, ValuePanels::kStride]

  KVSIM_INLINE const float* weight_of(std::int32_t token) const {
    return weight + std::ptrdiff_t{token} * kBlockSteps;
  }
  KVSIM_INLINE const float* value_of(std::int32_t token) const {
    return value + std::ptrdiff_t{token} * ValuePanels::kStride;
  }
};

/// Dimensions of a tile of a full panel: as many as the registers hold.
template <class Target>
inline constexpr int kDimsOfPanelTile = Target::kRegisters * 3 / 8;

/// Squares of a full panel's dimensions, summed over its tiles: those of even and of odd ones, so
/// that registers of any number add them in the same order.
struct SquareSums {
  double even[kBlockSteps];
  double odd[kBlockSteps];
  bool is_start = true;  ///< the next tile is the panel's first
};

/// kDims dimensions of a sum over tokens at as many steps of a block as fill two vectors, in
/// registers.
template <class Target, int kDims>
struct ValueTile {
  using Floats = typename Vectors<Target>::Floats;
  using Doubles = typename Vectors<Target>::Doubles;
  static constexpr int kWidth = kFloats<Target>;
  static constexpr int kSteps = 2 * kWidth;
  static constexpr int kParts = kSteps / kDoubles<Target>;

  Floats sum[kDims][2] = {};

  KVSIM_INLINE void add(const Floats& first, const Floats& second, const float* value) {
#pragma GCC unroll 12
    for (int d = 0; d < kDims; ++d) {
      sum[d][0] += first * value[d];
      sum[d][1] += second * value[d];
    }
  }

  /// kSign: 1, or -1 to subtract.
  template <int kSign>
  KVSIM_INLINE void add(const TileOperands& of, const std::int32_t* tokens, std::size_t count,
                        int step) {
    for (std::size_t i = 0; i < count; ++i) {
      const float* weight = of.weight_of(tokens[i]) + step;
      Floats first;
      Floats second;
      load(first, weight);
      load(second, weight + kWidth);
      add(float{kSign} * first, float{kSign} * second, of.value_of(tokens[i]));
    }
  }

  /// Adds rows of kBlockSteps of sums, or subtracts them.
  template <int kSign>
  KVSIM_INLINE void add(const float* sums) {
#pragma GCC unroll 12
    for (int d = 0; d < kDims; ++d) {
#pragma GCC unroll 2
      for (int part = 0; part < 2; ++part) {
        Floats more;
        load(more, sums + d * kBlockSteps + part * kWidth);
        sum[d][part] += float{kSign} * more;
      }
    }
  }

  /// Early terms are removed from rows before the middle, others added after it. The two halves of
  /// a block are either two vectors of a tile or two tiles.
  template <bool kAreEarly>
  KVSIM_INLINE void add(const TileOperands& of, std::span<const EvictedTerm> terms, int step) {
    constexpr bool kHasBoth = kSteps == kBlockSteps;
    constexpr int kFirst = kHasBoth && !kAreEarly ? 1 : 0;
    constexpr int kEnd = kHasBoth && kAreEarly ? 1 : 2;
    if (!kHasBoth && kAreEarly != (step < kMiddleRow)) return;
    for (const EvictedTerm& term : terms) {
      const std::int32_t* masks = kRowMasks.data() + kBlockSteps - term.first_row + step;
      const float* value = of.value_of(term.token);
#pragma GCC unroll 2
      for (int part = kFirst; part < kEnd; ++part) {
        Floats weight;
        load_masked<kAreEarly>(weight, of.weight_of(term.token) + step + part * kWidth,
                               masks + part * kWidth);
#pragma GCC unroll 12
        for (int d = 0; d < kDims; ++d) {
          if (kAreEarly) sum[d][part] -= weight * value[d];
          if (!kAreEarly) sum[d][part] += weight * value[d];
        }
      }
    }
  }

  /// To rows of kBlockSteps.
  KVSIM_INLINE void store_to(float* to) const {
#pragma GCC unroll 12
    for (int d = 0; d < kDims; ++d) {
      store(sum[d][0], to + d * kBlockSteps);
      store(sum[d][1], to + d * kBlockSteps + kWidth);
    }
  }

  /// Adds rows of kBlockSteps at `step` and later.
  KVSIM_INLINE void add_to(const double* from, double* to, int step) const {
#pragma GCC unroll 12
    for (int d = 0; d < kDims; ++d) {
#pragma GCC unroll 4
      for (int part = 0; part < kParts; ++part) {
        const int at = d * kBlockSteps + step + part * kDoubles<Target>;
        Doubles total;
        Doubles more;
        load(total, from + at);
        take(more, d, part);
        total += more;
        store(total, to + at);
      }
    }
  }

  /// add_squared_differences() of the tile's sums and the rows of `a`, at `step` and later. The
  /// squares of a panel's two tiles pass through `sums`; the second adds them.
  KVSIM_INLINE void add_squares(const Scaled& a, const Scaled& b, int step, SquareSums& sums,
                                double* square, float* difference) const {
    constexpr bool kIsHalf = kDims == kDimsOfPanelTile<Target> && 2 * kDims == ValuePanels::kDims;
    static_assert(kDims <= 4 || kDims == ValuePanels::kDims || (kIsHalf && kDims % 2 == 0));
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) {
      const int at = step + part * kDoubles<Target>;
      Doubles a_scale;
      Doubles b_scale;
      Doubles total;
      load(a_scale, a.scale + at);
      load(b_scale, b.scale + at);
      load(total, square + at);
      Doubles squares[2] = {};
      if (kIsHalf && !sums.is_start) {
        load(squares[0], sums.even + at);
        load(squares[1], sums.odd + at);
      }
#pragma GCC unroll 12
      for (int d = 0; d < kDims; ++d) {
        Doubles x;
        Doubles y;
        Doubles more;
        load(x, a.rows + d * kBlockSteps + at);
        load(y, b.rows + d * kBlockSteps + at);
        take(more, d, part);
        x += more - y * b_scale;
        squares[d % 2] += x * x;
        if (difference == nullptr) continue;
        const Doubles scaled = x * a_scale;
        typename Vectors<Target>::HalfFloats rounded;
        convert(rounded, scaled);
        store(rounded, difference + d * kBlockSteps + at);
      }
      if (kIsHalf && sums.is_start) {
        store(squares[0], sums.even + at);
        store(squares[1], sums.odd + at);
        continue;
      }
      total += (squares[0] + squares[1]) * (a_scale * a_scale);
      store(total, square + at);
    }
  }

 private:
  /// The sums at as many steps as fill a vector of doubles.
  KVSIM_INLINE void take(Doubles& doubles, int d, int part) const {
    if (part % 2 == 0) convert<0>(doubles, sum[d][part / 2]);
    if (part % 2 == 1) convert<kDoubles<Target>>(doubles, sum[d][part / 2]);
  }

  template <bool kInverts>
  KVSIM_INLINE static void load_masked(Floats& floats, const float* from,
                                       const std::int32_t* masks) {
    typename Vectors<Target>::Ints bits;
    typename Vectors<Target>::Ints mask;
    std::memcpy(&bits, from, sizeof bits);
    load(mask, masks);
    bits &= kInverts ? ~mask : mask;
    std::memcpy(&floats, &bits, sizeof floats);
  }
};

}  // namespace kvsim
