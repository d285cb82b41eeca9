#include "sim/kernels/leave_one_out_kernels.h"

#include <cstdint>
#include <cstring>

#include "sim/kernels/vector_targets.h"

namespace kvsim {
namespace {

using Doubles = double __attribute__((vector_size(kDoubles * sizeof(double))));
using Flags = std::int64_t __attribute__((vector_size(kDoubles * sizeof(std::int64_t))));

KVSIM_INLINE void load(Doubles& doubles, const double* from) {
  std::memcpy(&doubles, from, sizeof doubles);
}
KVSIM_INLINE void store(const Doubles& doubles, double* to) {
  std::memcpy(to, &doubles, sizeof doubles);
}

KVSIM_INLINE double total(const Doubles& doubles) {
  double lane[kDoubles];
  store(doubles, lane);
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/// Rows of `a` that are multiplied at a time, as many as sums fit into registers.
template <class Target>
inline constexpr std::size_t kTile = Target::kRegisters >= 32 ? 4 : 1;
constexpr std::size_t kRows = 4;  ///< of `b`

template <std::size_t kA, std::size_t kB>
KVSIM_INLINE void multiply_tile(const double* a, const double* b, std::size_t stride,
                                double* product, std::size_t to_next) {
  Doubles sums[kA][kB] = {};
  for (std::size_t d = 0; d < stride; d += kDoubles) {
    Doubles y[kB];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kB; ++j) load(y[j], b + j * stride + d);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kA; ++i) {
      Doubles x;
      load(x, a + i * stride + d);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kB; ++j) sums[i][j] += x * y[j];
    }
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kA; ++i) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kB; ++j) product[i * to_next + j] = total(sums[i][j]);
  }
}

template <std::size_t kA>
KVSIM_INLINE void multiply_some(const double* a, const DoubleRows& b, double* product,
                                std::size_t to_next) {
  std::size_t j = 0;
  for (; j + kRows <= b.count; j += kRows) {
    multiply_tile<kA, kRows>(a, b.first + j * b.stride, b.stride, product + j, to_next);
  }
  for (; j < b.count; ++j) {
    multiply_tile<kA, 1>(a, b.first + j * b.stride, b.stride, product + j, to_next);
  }
}

template <class Target>
KVSIM_INLINE void multiply(const DoubleRows& a, const DoubleRows& b, double* product,
                           std::size_t to_next) {
  constexpr std::size_t kA = kTile<Target>;
  std::size_t i = 0;
  for (; i + kA <= a.count; i += kA) {
    multiply_some<kA>(a.first + i * a.stride, b, product + i * to_next, to_next);
  }
  for (; i < a.count; ++i) {
    multiply_some<1>(a.first + i * a.stride, b, product + i * to_next, to_next);
  }
}
KVSIM_KERNEL(void, multiply,
             (const DoubleRows& a, const DoubleRows& b, double* product, std::size_t to_next),
             (a, b, product, to_next))

template <class Target>
KVSIM_INLINE void sum_all(const DoubleRows& rows, const double* weight, double* sum) {
  constexpr std::size_t kVectors = 4;
  std::size_t d = 0;
  for (; d + kVectors * kDoubles <= rows.stride; d += kVectors * kDoubles) {
    Doubles sums[kVectors] = {};
    for (std::size_t i = 0; i < rows.count; ++i) {
      const double* row = rows.first + i * rows.stride + d;
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) {
        Doubles x;
        load(x, row + v * kDoubles);
        sums[v] += x * weight[i];
      }
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) store(sums[v], sum + d + v * kDoubles);
  }
  for (; d < rows.stride; d += kDoubles) {
    Doubles sums = {};
    for (std::size_t i = 0; i < rows.count; ++i) {
      Doubles x;
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
  for (std::size_t i = 0; i < count; i += kDoubles) {
    Doubles x;
    Doubles sum;
    load(x, from + i);
    load(sum, to + i);
    store(sum + x * scale, to + i);
  }
}
KVSIM_KERNEL(void, add_scaled, (double scale, const double* from, std::size_t count, double* to),
             (scale, from, count, to))

// Without token j the output is ô + y (ô - v_j), y = weight / (weight_sum - weight). Gives y for a
// vector of tokens, 0 for one that is dominant, which it flags.
KVSIM_INLINE void moved_share(const double* from, double weight_sum, Doubles& share,
                              Flags& dominant) {
  Doubles weight;
  load(weight, from);
  const Doubles rest = weight_sum - weight;
  const Flags is_dominant = rest < Doubles{} + kDominantRest * weight_sum;
  dominant |= is_dominant;
  share = is_dominant ? Doubles{} : weight / rest;
}

KVSIM_INLINE bool any(const Flags& flags) {
  std::int64_t either = 0;
  for (std::size_t lane = 0; lane < kDoubles; ++lane) either |= flags[lane];
  return either != 0;
}

template <class Target>
KVSIM_INLINE bool error_changes(const CachedOutput& output, const TokenTerms& tokens,
                                std::size_t count, double* change) {
  const double inverse = 1 / output.weight_sum;
  Flags dominant = {};
  for (std::size_t j = 0; j < count; j += kDoubles) {
    Doubles share;
    moved_share(tokens.weight + j, output.weight_sum, share, dominant);
    Doubles cached;
    Doubles full;
    Doubles square;
    Doubles sum;
    load(cached, tokens.numerator_product + j);
    load(full, tokens.output_product + j);
    load(square, tokens.square + j);
    load(sum, change + j);
    cached *= inverse;
    const Doubles along = output.with_error - (cached - full);
    const Doubles apart = output.square - 2.0 * cached + square;
    store(sum + share * (2.0 * along + share * apart), change + j);
  }
  return any(dominant);
}
KVSIM_KERNEL(bool, error_changes,
             (const CachedOutput& output, const TokenTerms& tokens, std::size_t count,
              double* change),
             (output, tokens, count, change))

template <class Target>
KVSIM_INLINE bool projected_changes(const ProjectedOutput& output, const double* weight,
                                    const double* product, std::size_t count, double* change) {
  Flags dominant = {};
  for (std::size_t j = 0; j < count; j += kDoubles) {
    Doubles share;
    moved_share(weight + j, output.weight_sum, share, dominant);
    Doubles value;
    Doubles sum;
    load(value, product + j);
    load(sum, change + j);
    const Doubles moved = share * (output.cached - value);
    store(sum + moved * (2.0 * output.error + moved), change + j);
  }
  return any(dominant);
}
KVSIM_KERNEL(bool, projected_changes,
             (const ProjectedOutput& output, const double* weight, const double* product,
              std::size_t count, double* change),
             (output, weight, product, count, change))

template <class Target>
KVSIM_INLINE bool moved_shares(double weight_sum, const double* weight, std::size_t count,
                               double* share) {
  Flags dominant = {};
  for (std::size_t j = 0; j < count; j += kDoubles) {
    Doubles moved;
    moved_share(weight + j, weight_sum, moved, dominant);
    store(moved, share + j);
  }
  return any(dominant);
}
KVSIM_KERNEL(bool, moved_shares,
             (double weight_sum, const double* weight, std::size_t count, double* share),
             (weight_sum, weight, count, share))

template <class Target>
KVSIM_INLINE void linear_changes(const double* a, double constant, const double* product,
                                 std::size_t count, double* change) {
  for (std::size_t j = 0; j < count; j += kDoubles) {
    Doubles share;
    Doubles value;
    Doubles sum;
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
  for (std::size_t j = 0; j < count; j += kDoubles) {
    Doubles a;
    Doubles b;
    Doubles value;
    Doubles square;
    Doubles sum;
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
