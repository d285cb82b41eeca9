#include "sim/kernels/value_kernels.h"

#include <algorithm>
#include <array>

#include "sim/kernels/float_lanes.h"

namespace kvsim {
namespace {

constexpr std::size_t kTermsInSingle = 128;

using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

KVSIM_INLINE void load_doubles(Doubles& doubles, const double* from) {
  std::memcpy(&doubles, from, sizeof doubles);
}

KVSIM_INLINE void load_masked(Lanes& lanes, const float* from, const std::int32_t* mask) {
  LaneBits bits;
  LaneBits masks;
  std::memcpy(&bits, from, sizeof bits);
  std::memcpy(&masks, mask, sizeof masks);
  bits &= masks;
  std::memcpy(&lanes, &bits, sizeof lanes);
}

// kDims dimensions of a sum at all steps of a block, kept in registers.
template <int kDims>
struct Tile {
  Lanes sum[kDims][2] = {};

  KVSIM_INLINE void add(const Lanes& first, const Lanes& second, const float* value) {
#pragma GCC unroll 12
    for (int d = 0; d < kDims; ++d) {
      sum[d][0] += first * value[d];
      sum[d][1] += second * value[d];
    }
  }

  /// kSign: 1, or -1 to subtract.
  template <int kSign>
  KVSIM_INLINE void add(const Term* terms, std::size_t count, int dim) {
    for (std::size_t i = 0; i < count; ++i) {
      Lanes first;
      Lanes second;
      load(first, terms[i].weight);
      load(second, terms[i].weight + kLanes);
      add(float{kSign} * first, float{kSign} * second, terms[i].value + dim);
    }
  }

  KVSIM_INLINE void add(const EvictedTerm* terms, std::size_t count, int dim) {
    // A sliding window over this array masks the steps before first_row.
    static constexpr auto kCounts = [] {
      std::array<std::int32_t, 2 * kBlockSteps> counts{};
      for (int i = kBlockSteps; i < 2 * kBlockSteps; ++i) counts[i] = -1;
      return counts;
    }();
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t* counts = kCounts.data() + kBlockSteps - terms[i].first_row;
      Lanes first;
      Lanes second;
      load_masked(first, terms[i].weight, counts);
      load_masked(second, terms[i].weight + kLanes, counts + kLanes);
      add(first, second, terms[i].value + dim);
    }
  }

  KVSIM_INLINE void add_to(const double* from, double* to) const {
#pragma GCC unroll 12
    for (int d = 0; d < kDims; ++d) {
      for (int half = 0; half < 2; ++half) {
        const int at = d * kBlockSteps + half * kLanes;
        Doubles total;
        load_doubles(total, from + at);
        total += __builtin_convertvector(sum[d][half], Doubles);
        std::memcpy(to + at, &total, sizeof total);
      }
    }
  }
};

template <int kDims>
KVSIM_INLINE void add_tile(std::span<const Term> added, std::span<const Term> removed, int dim,
                           const double* from, double* to) {
  do {
    const std::size_t more = std::min(kTermsInSingle, added.size());
    const std::size_t less = std::min(kTermsInSingle - more, removed.size());
    Tile<kDims> tile;
    tile.template add<1>(added.data(), more, dim);
    tile.template add<-1>(removed.data(), less, dim);
    tile.add_to(from, to);
    from = to;
    added = added.subspan(more);
    removed = removed.subspan(less);
  } while (!added.empty() || !removed.empty());
}

// Calls work.operator()<kDims>(dim) for tiles that cover `dims`, each as large as the registers
// allow.
template <class Target, class Work>
KVSIM_INLINE void tile_by_tile(int dims, const Work& work) {
  constexpr int kDims = Target::kFloatRegisters * 3 / 128;
  int dim = 0;
  for (; dim + kDims <= dims; dim += kDims) work.template operator()<kDims>(dim);
  for (; kDims > 4 && dim + 4 <= dims; dim += 4) work.template operator()<4>(dim);
  for (; dim < dims; ++dim) work.template operator()<1>(dim);
}

template <class Target>
KVSIM_INLINE void add_all(std::span<const Term> added, std::span<const Term> removed, int first_dim,
                          int dims, const double* from, double* to) {
  tile_by_tile<Target>(
      dims, [&]<int kDims>(int dim) __attribute__((always_inline)) {
        add_tile<kDims>(added, removed, first_dim + dim, from + dim * kBlockSteps,
                        to + dim * kBlockSteps);
      });
}
KVSIM_KERNEL(void, add_all,
             (std::span<const Term> added, std::span<const Term> removed, int first_dim, int dims,
              const double* from, double* to),
             (added, removed, first_dim, dims, from, to))

template <int kDims>
KVSIM_INLINE void add_squares_of_tile(const Scaled& a, std::span<const EvictedTerm> evicted,
                                      int dim, const Scaled& b, double* square, float* difference) {
  double sums[kDims * kBlockSteps];
  const double* from = a.rows;
  while (!evicted.empty()) {
    const std::size_t count = std::min(kTermsInSingle, evicted.size());
    Tile<kDims> tile;
    tile.add(evicted.data(), count, dim);
    tile.add_to(from, sums);
    from = sums;
    evicted = evicted.subspan(count);
  }
  for (int step = 0; step < kBlockSteps; step += kLanes) {
    Doubles a_scale;
    Doubles b_scale;
    Doubles total;
    load_doubles(a_scale, a.scale + step);
    load_doubles(b_scale, b.scale + step);
    load_doubles(total, square + step);
    for (int d = 0; d < kDims; ++d) {
      Doubles x;
      Doubles y;
      load_doubles(x, from + d * kBlockSteps + step);
      load_doubles(y, b.rows + d * kBlockSteps + step);
      x = x * a_scale - y * b_scale;
      total += x * x;
      if (difference == nullptr) continue;
      const Lanes rounded = __builtin_convertvector(x, Lanes);
      std::memcpy(difference + d * kBlockSteps + step, &rounded, sizeof rounded);
    }
    std::memcpy(square + step, &total, sizeof total);
  }
}

template <class Target>
KVSIM_INLINE void add_squares(const Scaled& a, std::span<const EvictedTerm> evicted, int first_dim,
                              const Scaled& b, int dims, double* square, float* difference) {
  tile_by_tile<Target>(
      dims, [&]<int kDims>(int dim) __attribute__((always_inline)) {
        const std::ptrdiff_t at = std::ptrdiff_t{dim} * kBlockSteps;
        add_squares_of_tile<kDims>({a.rows + at, a.scale}, evicted, first_dim + dim,
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
  for (int step = 0; step < kBlockSteps; step += kLanes) {
    Doubles total = {};
    for (int d = 0; d < dims; ++d) {
      Lanes x;
      Lanes y;
      load(x, a + d * kBlockSteps + step);
      load(y, b + d * kBlockSteps + step);
      total += __builtin_convertvector(x, Doubles) * __builtin_convertvector(y, Doubles);
    }
    std::memcpy(product + step, &total, sizeof total);
  }
}
KVSIM_KERNEL(void, multiply_by_column, (const float* a, const float* b, int dims, double* product),
             (a, b, dims, product))

// kLanes * kTiles dimensions of the sums, kept in registers.
template <int kTiles>
KVSIM_INLINE void add_rows(const float* value, std::ptrdiff_t stride, const std::int32_t* tokens,
                           const float* weight, std::size_t count, double* sum) {
  Doubles tile[kTiles] = {};
  for (std::size_t i = 0; i < count; ++i) {
    const float* row = value + tokens[i] * stride;
    for (int t = 0; t < kTiles; ++t) {
      Lanes lanes;
      load(lanes, row + t * kLanes);
      tile[t] += __builtin_convertvector(lanes, Doubles) * double{weight[i]};
    }
  }
  for (int t = 0; t < kTiles; ++t) {
    for (int k = 0; k < kLanes; ++k) sum[t * kLanes + k] += tile[t][k];
  }
}

template <class Target>
KVSIM_INLINE void add_in_double(const float* value, int dims, const std::int32_t* tokens,
                                const float* weight, std::size_t count, double* sum) {
  constexpr int kTiles = std::max(1, Target::kFloatRegisters / 128);
  int dim = 0;
  for (; dim + kTiles * kLanes <= dims; dim += kTiles * kLanes) {
    add_rows<kTiles>(value + dim, dims, tokens, weight, count, sum + dim);
  }
  for (; dim + kLanes <= dims; dim += kLanes) {
    add_rows<1>(value + dim, dims, tokens, weight, count, sum + dim);
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
  const std::size_t lines = (value_dim + kLanes - 1) / kLanes;
  return (lines | 1) * kLanes;
}

AlignedRows pad_values(const Matrix& value) {
  const auto dims = static_cast<std::size_t>(value.cols());
  AlignedRows rows(static_cast<std::size_t>(value.rows()), padded_value_dim(dims));
  for (std::size_t token = 0; token < static_cast<std::size_t>(value.rows()); ++token) {
    std::copy_n(value.data() + token * dims, dims, rows.row(token));
  }
  return rows;
}

void add_products(std::span<const Term> added, std::span<const Term> removed, int first_dim,
                  int dims, const double* from, double* to) {
  best_add_all(added, removed, first_dim, dims, from, to);
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
