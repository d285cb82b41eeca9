#include "sim/kernels/leave_one_out_kernels.h"

#include <cstring>

#include "sim/base/float_lanes.h"

namespace kvsim {
namespace {

template <class Target>
using Doubles = typename Vectors<Target>::Doubles;
template <class Target>
using Flags = typename Vectors<Target>::Longs;

/// As many sums as a row is padded to: with any length of vector they add up in the same order.
template <class Target>
struct PaddedSums {
  static constexpr std::size_t kVectors = kPadding / kDoubles<Target>;

  Doubles<Target> part[kVectors] = {};

  KVSIM_INLINE double total() const {
    double lane[kPadding];
    std::memcpy(lane, part, sizeof lane);
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  }
};

/// Rows of `a` that are multiplied at a time, as many as sums fit into registers.
template <class Target>
inline constexpr std::size_t kTile = Target::kRegisters >= 32 ? 4 : 1;
constexpr std::size_t kRows = 4;  ///< of `b`

template <class Target, std::size_t kA, std::size_t kB>
KVSIM_INLINE void multiply_tile(const double* a, const double* b, std::size_t stride,
                                double* product, std::size_t to_next) {
  using Sums = PaddedSums<Target>;
  Sums sums[kA][kB];
  for (std::size_t d = 0; d < stride; d += kPadding) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Sums::kVectors; ++v) {
      const std::size_t at = d + v * kDoubles<Target>;
      Doubles<Target> y[kB];
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kB; ++j) load(y[j], b + j * stride + at);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kA; ++i) {
        Doubles<Target> x;
        load(x, a + i * stride + at);
#pragma GCC unroll 4
        for (std::size_t j = 0; j < kB; ++j) sums[i][j].part[v] += x * y[j];
      }
    }
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kA; ++i) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kB; ++j) product[i * to_next + j] = sums[i][j].total();
  }
}

template <class Target, std::size_t kA>
KVSIM_INLINE void multiply_some(const double* a, const DoubleRows& b, double* product,
                                std::size_t to_next) {
  std::size_t j = 0;
  for (; j + kRows <= b.count; j += kRows) {
    multiply_tile<Target, kA, kRows>(a, b.first + j * b.stride, b.stride, product + j, to_next);
  }
  for (; j < b.count; ++j) {
    multiply_tile<Target, kA, 1>(a, b.first + j * b.stride, b.stride, product + j, to_next);
  }
}

template <class Target>
KVSIM_INLINE void multiply(const DoubleRows& a, const DoubleRows& b, double* product,
                           std::size_t to_next) {
  constexpr std::size_t kA = kTile<Target>;
  std::size_t i = 0;
  for (; i + kA <= a.count; i += kA) {
    multiply_some<Target, kA>(a.first + i * a.stride, b, product + i * to_next, to_next);
  }
  for (; i < a.count; ++i) {
    multiply_some<Target, 1>(a.first + i * a.stride, b, product + i * to_next, to_next);
  }
}
KVSIM_KERNEL(void, multiply,
             (const DoubleRows& a, const DoubleRows& b, double* product, std::size_t to_next),
             (a, b, product, to_next))

template <class Target>
KVSIM_INLINE void sum_all(const DoubleRows& rows, const double* weight, double* sum) {
  constexpr std::size_t kVectors = 4;
  std::size_t d = 0;
  for (; d + kVectors * kDoubles<Target> <= rows.stride; d += kVectors * kDoubles<Target>) {
    Doubles<Target> sums[kVectors] = {};
    for (std::size_t i = 0; i < rows.count; ++i) {
      const double* row = rows.first + i * rows.stride + d;
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) {
        Doubles<Target> x;
        load(x, row + v * kDoubles<Target>);
        sums[v] += x * weight[i];
      }
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) store(sums[v], sum + d + v * kDoubles<Target>);
  }
  for (; d < rows.stride; d += kDoubles<Target>) {
    Doubles<Target> sums = {};
    for (std::size_t i = 0; i < rows.count; ++i) {
      Doubles<Target> x;
      load(x, rows.first + i * rows.stride + d);
      sums += x * weight[i];
    }
    store(sums, sum + d);
  }
}
KVSIM_KERNEL(void, sum_all, (const DoubleRows& rows, const double* weight, double* sum),
             (rows, weight, sum))

template <class Target>
KVSIM_INLINE void add_scaled(double scale, const double* from, std::size_t count, double* to) {
  for (std::size_t i = 0; i < count; i += kDoubles<Target>) {
    Doubles<Target> x;
    Doubles<Target> sum;
    load(x, from + i);
    load(sum, to + i);
    store(sum + x * scale, to + i);
  }
}
KVSIM_KERNEL(void, add_scaled, (double scale, const double* from, std::size_t count, double* to),
             (scale, from, count, to))

// Without token j the output is ô + y (ô - v_j), y = weight / (weight_sum - weight). Gives y for a
// vector of tokens, 0 for one that is dominant, which it flags.
template <class Target>
KVSIM_INLINE void moved_share(const double* from, double weight_sum, Doubles<Target>& share,
                              Flags<Target>& dominant) {
  Doubles<Target> weight;
  load(weight, from);
  const Doubles<Target> rest = weight_sum - weight;
  const Flags<Target> is_dominant = rest < Doubles<Target>{} + kDominantRest * weight_sum;
  dominant |= is_dominant;
  share = is_dominant ? Doubles<Target>{} : weight / rest;
}

template <class Target>
KVSIM_INLINE bool any(const Flags<Target>& flags) {
  std::int64_t either = 0;
  for (std::size_t lane = 0; lane < kDoubles<Target>; ++lane) either |= flags[lane];
  return either != 0;
}

template <class Target>
KVSIM_INLINE bool error_changes(const CachedOutput& output, const TokenTerms& tokens,
                                std::size_t count, double* change) {
  const double inverse = 1 / output.weight_sum;
  Flags<Target> dominant = {};
  for (std::size_t j = 0; j < count; j += kDoubles<Target>) {
    Doubles<Target> share;
    moved_share<Target>(tokens.weight + j, output.weight_sum, share, dominant);
    Doubles<Target> cached;
    Doubles<Target> full;
    Doubles<Target> square;
    Doubles<Target> sum;
    load(cached, tokens.numerator_product + j);
    load(full, tokens.output_product + j);
    load(square, tokens.square + j);
    load(sum, change + j);
    cached *= inverse;
    const Doubles<Target> along = output.with_error - (cached - full);
    const Doubles<Target> apart = output.square - 2.0 * cached + square;
    store(sum + share * (2.0 * along + share * apart), change + j);
  }
  return any<Target>(dominant);
}
KVSIM_KERNEL(bool, error_changes,
             (const CachedOutput& output, const TokenTerms& tokens, std::size_t count,
              double* change),
             (output, tokens, count, change))

template <class Target>
KVSIM_INLINE bool projected_changes(const ProjectedOutput& output, const double* weight,
                                    const double* product, std::size_t count, double* change) {
  Flags<Target> dominant = {};
  for (std::size_t j = 0; j < count; j += kDoubles<Target>) {
    Doubles<Target> share;
    moved_share<Target>(weight + j, output.weight_sum, share, dominant);
    Doubles<Target> value;
    Doubles<Target> sum;
    load(value, product + j);
    load(sum, change + j);
    const Doubles<Target> moved = share * (output.cached - value);
    store(sum + moved * (2.0 * output.error + moved), change + j);
  }
  return any<Target>(dominant);
}
KVSIM_KERNEL(bool, projected_changes,
             (const ProjectedOutput& output, const double* weight, const double* product,
              std::size_t count, double* change),
             (output, weight, product, count, change))

template <class Target>
KVSIM_INLINE bool moved_shares(double weight_sum, const double* weight, std::size_t count,
                               double* share) {
  Flags<Target> dominant = {};
  for (std::size_t j = 0; j < count; j += kDoubles<Target>) {
    Doubles<Target> moved;
    moved_share<Target>(weight + j, weight_sum, moved, dominant);
    store(moved, share + j);
  }
  return any<Target>(dominant);
}
KVSIM_KERNEL(bool, moved_shares,
             (double weight_sum, const double* weight, std::size_t count, double* share),
             (weight_sum, weight, count, share))

template <class Target>
KVSIM_INLINE void linear_changes(const double* a, double constant, const double* product,
                                 std::size_t count, double* change) {
  for (std::size_t j = 0; j < count; j += kDoubles<Target>) {
    Doubles<Target> share;
    Doubles<Target> value;
    Doubles<Target> sum;
    load(share, a + j);
    load(value, product + j);
    load(sum, change + j);
    store(sum + 2.0 * share * (constant - value), change + j);
  }
}
KVSIM_KERNEL(void, linear_changes,
             (const double* a, double constant, const double* product, std::size_t count,
              double* change),
             (a, constant, product, count, change))

template <class Target>
KVSIM_INLINE void quadratic_changes(double constant, const QuadraticTerms& terms, std::size_t count,
                                    double* change) {
  for (std::size_t j = 0; j < count; j += kDoubles<Target>) {
    Doubles<Target> a;
    Doubles<Target> b;
    Doubles<Target> value;
    Doubles<Target> square;
    Doubles<Target> sum;
    load(a, terms.a + j);
    load(b, terms.b + j);
    load(value, terms.product + j);
    load(square, terms.square + j);
    load(sum, change + j);
    store(sum + a * b * (constant - 2.0 * value + square), change + j);
  }
}
KVSIM_KERNEL(void, quadratic_changes,
             (double constant, const QuadraticTerms& terms, std::size_t count, double* change),
             (constant, terms, count, change))

}  // namespace

void multiply_rows(const DoubleRows& a, const DoubleRows& b, double* product, std::size_t stride) {
  best_multiply(a, b, product, stride);
}

void sum_rows(const DoubleRows& rows, const double* weight, double* sum) {
  best_sum_all(rows, weight, sum);
}

void add_scaled_doubles(double scale, const double* from, std::size_t count, double* to) {
  best_add_scaled(scale, from, count, to);
}

bool add_error_changes(const CachedOutput& output, const TokenTerms& tokens, std::size_t count,
                       double* change) {
  return best_error_changes(output, tokens, count, change);
}

bool add_projected_changes(const ProjectedOutput& output, const double* weight,
                           const double* product, std::size_t count, double* change) {
  return best_projected_changes(output, weight, product, count, change);
}

bool set_moved_shares(double weight_sum, const double* weight, std::size_t count, double* share) {
  return best_moved_shares(weight_sum, weight, count, share);
}

void add_linear_changes(const double* a, double constant, const double* product, std::size_t count,
                        double* change) {
  best_linear_changes(a, constant, product, count, change);
}

void add_quadratic_changes(double constant, const QuadraticTerms& terms, std::size_t count,
                           double* change) {
  best_quadratic_changes(constant, terms, count, change);
}

}  // namespace kvsim
