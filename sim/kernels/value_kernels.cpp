#include "sim/kernels/value_kernels.h"

#include <algorithm>

#include "sim/kernels/value_tile.h"

namespace kvsim {
namespace {

constexpr std::size_t kTermsInSingle = 128;

template <class Target, int kDims>
KVSIM_INLINE void add_tile(const Terms& terms, int dim, int at, const double* from, double* to) {
  std::span<const Term> added = terms.added;
  std::span<const Term> removed = terms.removed;
  bool is_first = true;
  do {
    const std::size_t more = std::min(kTermsInSingle, added.size());
    const std::size_t less = std::min(kTermsInSingle - more, removed.size());
    for (int step = 0; step < kBlockSteps; step += ValueTile<Target, kDims>::kSteps) {
      ValueTile<Target, kDims> tile;
      if (is_first) {
        for (const float* sum : terms.added_sums) tile.template add<1>(sum + at + step);
        for (const float* sum : terms.removed_sums) tile.template add<-1>(sum + at + step);
      }
      tile.template add<1>(added.data(), more, step, dim);
      tile.template add<-1>(removed.data(), less, step, dim);
      tile.add_to(from + at, to + at, step);
    }
    is_first = false;
    from = to;
    added = added.subspan(more);
    removed = removed.subspan(less);
  } while (!added.empty() || !removed.empty());
}

// Calls work.operator()<kDims>(dim) for tiles that cover `dims`, each as large as the registers
// allow.
template <class Target, class Work>
KVSIM_INLINE void tile_by_tile(int dims, const Work& work) {
  constexpr int kDims = Target::kRegisters * 3 / 8;
  int dim = 0;
  // Eight or nine dimensions take less time as twice four and the rest than as six and the rest.
  const auto is_large_left = [&] { return dims - dim >= kDims && (dims - dim) / 2 != 4; };
  for (; is_large_left(); dim += kDims) work.template operator()<kDims>(dim);
  for (; dim + 4 <= dims; dim += 4) work.template operator()<4>(dim);
  for (; dim < dims; ++dim) work.template operator()<1>(dim);
}

template <class Target>
KVSIM_INLINE void add_all(const Terms& terms, int first_dim, int dims, const double* from,
                          double* to) {
  tile_by_tile<Target>(
      dims, [&]<int kDims>(int dim) __attribute__((always_inline)) {
        add_tile<Target, kDims>(terms, first_dim + dim, dim * kBlockSteps, from, to);
      });
}
KVSIM_KERNEL(void, add_all,
             (const Terms& terms, int first_dim, int dims, const double* from, double* to),
             (terms, first_dim, dims, from, to))

template <class Target>
KVSIM_INLINE void sum_of_terms(std::span<const Term> terms, int first_dim, int dims, float* to) {
  tile_by_tile<Target>(
      dims, [&]<int kDims>(int dim) __attribute__((always_inline)) {
        for (int step = 0; step < kBlockSteps; step += ValueTile<Target, kDims>::kSteps) {
          ValueTile<Target, kDims> tile;
          tile.template add<1>(terms.data(), terms.size(), step, first_dim + dim);
          tile.store_to(to + dim * kBlockSteps + step);
        }
      });
}
KVSIM_KERNEL(void, sum_of_terms, (std::span<const Term> terms, int first_dim, int dims, float* to),
             (terms, first_dim, dims, to))

template <class Target, int kDims>
KVSIM_INLINE void add_squares_of_tile(const Scaled& a, std::span<const EvictedTerm> evicted,
                                      int dim, const Scaled& b, double* square, float* difference) {
  using Tile = ValueTile<Target, kDims>;
  const auto first_late = std::partition_point(evicted.begin(), evicted.end(),
                                               [](const auto& term) { return term.is_early(); });
  std::span<const EvictedTerm> early(evicted.begin(), first_late);
  std::span<const EvictedTerm> late(first_late, evicted.end());
  double sums[kDims * kBlockSteps];
  const double* from = a.rows;
  while (early.size() + late.size() > kTermsInSingle) {
    const std::size_t some = std::min(kTermsInSingle, early.size());
    const std::size_t rest = std::min(kTermsInSingle - some, late.size());
    for (int step = 0; step < kBlockSteps; step += Tile::kSteps) {
      Tile tile;
      tile.template add<true>(early.first(some), step, dim);
      tile.template add<false>(late.first(rest), step, dim);
      tile.add_to(from, sums, step);
    }
    from = sums;
    early = early.subspan(some);
    late = late.subspan(rest);
  }
  for (int step = 0; step < kBlockSteps; step += Tile::kSteps) {
    Tile tile;
    tile.template add<true>(early, step, dim);
    tile.template add<false>(late, step, dim);
    tile.add_squares({from, a.scale}, b, step, square, difference);
  }
}

template <class Target>
KVSIM_INLINE void add_squares(const Scaled& a, std::span<const EvictedTerm> evicted, int first_dim,
                              const Scaled& b, int dims, double* square, float* difference) {
  tile_by_tile<Target>(
      dims, [&]<int kDims>(int dim) __attribute__((always_inline)) {
        const std::ptrdiff_t at = std::ptrdiff_t{dim} * kBlockSteps;
        add_squares_of_tile<Target, kDims>({a.rows + at, a.scale}, evicted, first_dim + dim,
                                           {b.rows + at, b.scale}, square,
                                           difference == nullptr ? nullptr : difference + at);
      });
}
KVSIM_KERNEL(void, add_squares,
             (const Scaled& a, std::span<const EvictedTerm> evicted, int first_dim, const Scaled& b,
              int dims, double* square, float* difference),
             (a, evicted, first_dim, b, dims, square, difference))

template <class Target>
KVSIM_INLINE void multiply_by_column(const float* a, const float* b, int dims, double* product) {
  using Doubles = typename Vectors<Target>::Doubles;
  for (int step = 0; step < kBlockSteps; step += kDoubles<Target>) {
    Doubles total = {};
    for (int d = 0; d < dims; ++d) {
      Doubles x;
      Doubles y;
      convert(x, a + d * kBlockSteps + step);
      convert(y, b + d * kBlockSteps + step);
      total += x * y;
    }
    store(total, product + step);
  }
}
KVSIM_KERNEL(void, multiply_by_column, (const float* a, const float* b, int dims, double* product),
             (a, b, dims, product))

// As many dimensions of the sums as fill kVectors vectors, kept in registers.
template <class Target, int kVectors>
KVSIM_INLINE void add_rows(const float* value, std::ptrdiff_t stride, const std::int32_t* tokens,
                           const float* weight, std::size_t count, double* sum) {
  using Doubles = typename Vectors<Target>::Doubles;
  Doubles tile[kVectors] = {};
  for (std::size_t i = 0; i < count; ++i) {
    const float* row = value + tokens[i] * stride;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Doubles doubles;
      convert(doubles, row + v * kDoubles<Target>);
      tile[v] += doubles * double{weight[i]};
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    Doubles total;
    load(total, sum + v * kDoubles<Target>);
    total += tile[v];
    store(total, sum + v * kDoubles<Target>);
  }
}

template <class Target>
KVSIM_INLINE void add_in_double(const float* value, int dims, const std::int32_t* tokens,
                                const float* weight, std::size_t count, double* sum) {
  constexpr int kVectors = 8;
  int dim = 0;
  for (; dim + kVectors * kDoubles<Target> <= dims; dim += kVectors * kDoubles<Target>) {
    add_rows<Target, kVectors>(value + dim, dims, tokens, weight, count, sum + dim);
  }
  for (; dim + kDoubles<Target> <= dims; dim += kDoubles<Target>) {
    add_rows<Target, 1>(value + dim, dims, tokens, weight, count, sum + dim);
  }
  for (; dim < dims; ++dim) {
    for (std::size_t i = 0; i < count; ++i) {
      sum[dim] += double{weight[i]} * value[static_cast<std::ptrdiff_t>(tokens[i]) * dims + dim];
    }
  }
}
KVSIM_KERNEL(void, add_in_double,
             (const float* value, int dims, const std::int32_t* tokens, const float* weight,
              std::size_t count, double* sum),
             (value, dims, tokens, weight, count, sum))

}  // namespace

std::size_t padded_value_dim(std::size_t value_dim) {
  constexpr std::size_t kFloatsPerLine = 16;
  const std::size_t lines = (value_dim + kFloatsPerLine - 1) / kFloatsPerLine;
  return (lines | 1) * kFloatsPerLine;
}

AlignedRows pad_values(const Matrix& value) {
  const auto dims = static_cast<std::size_t>(value.cols());
  AlignedRows rows(static_cast<std::size_t>(value.rows()), padded_value_dim(dims));
  for (std::size_t token = 0; token < static_cast<std::size_t>(value.rows()); ++token) {
    std::copy_n(value.data() + token * dims, dims, rows.row(token));
  }
  return rows;
}

void add_products(const Terms& terms, int first_dim, int dims, const double* from, double* to) {
  best_add_all(terms, first_dim, dims, from, to);
}

void sum_terms(std::span<const Term> terms, int first_dim, int dims, float* to) {
  best_sum_of_terms(terms, first_dim, dims, to);
}

void add_squared_differences(const Scaled& a, std::span<const EvictedTerm> evicted, int first_dim,
                             const Scaled& b, int dims, double* square, float* difference) {
  best_add_squares(a, evicted, first_dim, b, dims, square, difference);
}

void multiply_columns(const float* a, const float* b, int dims, double* product) {
  best_multiply_by_column(a, b, dims, product);
}

void add_values(const Matrix& value, std::span<const std::int32_t> tokens,
                std::span<const float> weight, double* sum) {
  best_add_in_double(value.data(), static_cast<int>(value.cols()), tokens.data(), weight.data(),
                     tokens.size(), sum);
}

}  // namespace kvsim
