#include "sim/kernels/value_kernels.h"

#include <algorithm>

#include "sim/kernels/value_tile.h"

namespace kvsim {
namespace {

constexpr std::size_t kTermsInSingle = 128;

template <class Target, int kDims>
KVSIM_INLINE void add_tile(const TileOperands& of, const Terms& terms, int at, const double* from,
                           double* to) {
  std::span<const std::int32_t> added = terms.added;
  std::span<const std::int32_t> removed = terms.removed;
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
      tile.template add<1>(of, added.data(), more, step);
      tile.template add<-1>(of, removed.data(), less, step);
      tile.add_to(from + at, to + at, step);
    }
    is_first = false;
    from = to;
    added = added.subspan(more);
    removed = removed.subspan(less);
  } while (!added.empty() || !removed.empty());
}

// Calls work.operator()<kDims>(operands, dim) for tiles that cover `dims` from first_dim on, in
// a full panel as large as the registers allow, else the same ones on every processor; `dim` counts
// from first_dim.
template <class Target, class Work>
KVSIM_INLINE void tile_by_tile(const WeightedValues& of, int first_dim, int dims,
                               const Work& work) {
  constexpr int kTileDims = kDimsOfPanelTile<Target>;
  const float* weight = of.weight_by_token.row(0);
  int panel = first_dim / ValuePanels::kDims;
  for (int first = 0; first < dims; first += ValuePanels::kDims, ++panel) {
    const float* value = of.values.panel(panel);
    const int end = std::min(dims, first + ValuePanels::kDims);
    int dim = first;
    const auto operands = [&]() __attribute__((always_inline)) {
      return TileOperands{weight, value + (dim - first)};
    };
    if (end - first == ValuePanels::kDims) {
      for (; dim < end; dim += kTileDims) work.template operator()<kTileDims>(operands(), dim);
    }
    for (; dim + 4 <= end; dim += 4) work.template operator()<4>(operands(), dim);
    for (; dim < end; ++dim) work.template operator()<1>(operands(), dim);
  }
}

template <class Target>
KVSIM_INLINE void add_all(const WeightedValues& of, const Terms& terms, int first_dim, int dims,
                          const double* from, double* to) {
  tile_by_tile<Target>(
      of, first_dim,
      dims, [&]<int kDims>(const TileOperands& operands, int dim) __attribute__((always_inline)) {
        add_tile<Target, kDims>(operands, terms, dim * kBlockSteps, from, to);
      });
}
KVSIM_KERNEL(void, add_all,
             (const WeightedValues& of, const Terms& terms, int first_dim, int dims,
              const double* from, double* to),
             (of, terms, first_dim, dims, from, to))

template <class Target>
KVSIM_INLINE void sum_all(const WeightedValues& of, std::span<const std::int32_t> tokens,
                          int first_dim, int dims, float* to) {
  tile_by_tile<Target>(
      of, first_dim,
      dims, [&]<int kDims>(const TileOperands& operands, int dim) __attribute__((always_inline)) {
        for (int step = 0; step < kBlockSteps; step += ValueTile<Target, kDims>::kSteps) {
          ValueTile<Target, kDims> tile;
          tile.template add<1>(operands, tokens.data(), tokens.size(), step);
          tile.store_to(to + dim * kBlockSteps + step);
        }
      });
}
KVSIM_KERNEL(void, sum_all,
             (const WeightedValues& of, std::span<const std::int32_t> tokens, int first_dim,
              int dims, float* to),
             (of, tokens, first_dim, dims, to))

template <class Target, int kDims>
KVSIM_INLINE void add_squares_of_tile(const TileOperands& of, const Scaled& a,
                                      std::span<const EvictedTerm> evicted, const Scaled& b,
                                      SquareSums& sums_of_panel, double* square,
                                      float* difference) {
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
      tile.template add<true>(of, early.first(some), step);
      tile.template add<false>(of, late.first(rest), step);
      tile.add_to(from, sums, step);
    }
    from = sums;
    early = early.subspan(some);
    late = late.subspan(rest);
  }
  for (int step = 0; step < kBlockSteps; step += Tile::kSteps) {
    Tile tile;
    tile.template add<true>(of, early, step);
    tile.template add<false>(of, late, step);
    tile.add_squares({from, a.scale}, b, step, sums_of_panel, square, difference);
  }
}

template <class Target>
KVSIM_INLINE void add_squares(const WeightedValues& of, const Scaled& a,
                              std::span<const EvictedTerm> evicted, int first_dim, const Scaled& b,
                              int dims, double* square, float* difference) {
  SquareSums sums;
  tile_by_tile<Target>(
      of, first_dim,
      dims, [&]<int kDims>(const TileOperands& operands, int dim) __attribute__((always_inline)) {
        const std::ptrdiff_t at = std::ptrdiff_t{dim} * kBlockSteps;
        sums.is_start = dim % ValuePanels::kDims == 0;
        add_squares_of_tile<Target, kDims>(operands, {a.rows + at, a.scale}, evicted,
                                           {b.rows + at, b.scale}, sums, square,
                                           difference == nullptr ? nullptr : difference + at);
      });
}
KVSIM_KERNEL(void, add_squares,
             (const WeightedValues& of, const Scaled& a, std::span<const EvictedTerm> evicted,
              int first_dim, const Scaled& b, int dims, double* square, float* difference),
             (of, a, evicted, first_dim, b, dims, square, difference))

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

void add_products(const WeightedValues& of, const Terms& terms, int first_dim, int dims,
                  const double* from, double* to) {
  best_add_all(of, terms, first_dim, dims, from, to);
}

void sum_products(const WeightedValues& of, std::span<const std::int32_t> tokens, int first_dim,
                  int dims, float* to) {
  best_sum_all(of, tokens, first_dim, dims, to);
}

void add_squared_differences(const WeightedValues& of, const Scaled& a,
                             std::span<const EvictedTerm> evicted, int first_dim, const Scaled& b,
                             int dims, double* square, float* difference) {
  best_add_squares(of, a, evicted, first_dim, b, dims, square, difference);
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
