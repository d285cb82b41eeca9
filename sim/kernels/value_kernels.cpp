#include "sim/kernels/value_kernels.h"

#include <algorithm>
#include <array>

#include "sim/kernels/float_lanes.h"

namespace kvsim {
namespace {

constexpr std::size_t kTermsInSingle = 128;

// A sliding window over this array masks the steps before EvictedTerm::first_row.
constexpr auto kMasks = [] {
  std::array<std::int32_t, 2 * kBlockSteps> masks{};
  for (int i = kBlockSteps; i < 2 * kBlockSteps; ++i) masks[i] = -1;
  return masks;
}();

// kDims dimensions of a sum at as many steps of a block as fill two vectors, in registers.
template <class Target, int kDims>
struct Tile {
  using Floats = typename Vectors<Target>::Floats;
  static constexpr int kWidth = kFloats<Target>;
  static constexpr int kSteps = 2 * kWidth;

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
  KVSIM_INLINE void add(const Term* terms, std::size_t count, int step, int dim) {
    for (std::size_t i = 0; i < count; ++i) {
      Floats first;
      Floats second;
      load(first, terms[i].weight + step);
      load(second, terms[i].weight + step + kWidth);
      add(float{kSign} * first, float{kSign} * second, terms[i].value + dim);
    }
  }

  KVSIM_INLINE void add(const EvictedTerm* terms, std::size_t count, int step, int dim) {
    for (std::size_t i = 0; i < count; ++i) {
      const float* weight = terms[i].weight + step;
      const std::int32_t* masks = kMasks.data() + kBlockSteps - terms[i].first_row + step;
      Floats first;
      Floats second;
      load_masked(first, weight, masks);
      load_masked(second, weight + kWidth, masks + kWidth);
      add(first, second, terms[i].value + dim);
    }
  }

  /// Adds rows of kBlockSteps at `step` and later.
  KVSIM_INLINE void add_to(const double* from, double* to, int step) const {
#pragma GCC unroll 12
    for (int d = 0; d < kDims; ++d) {
      float sums[kSteps];
      store(sum[d][0], sums);
      store(sum[d][1], sums + kWidth);
#pragma GCC unroll 4
      for (int i = 0; i < kSteps; i += kDoubles<Target>) {
        typename Vectors<Target>::Doubles total;
        typename Vectors<Target>::Doubles more;
        load(total, from + d * kBlockSteps + step + i);
        load_as_doubles<Target>(more, sums + i);
        total += more;
        store(total, to + d * kBlockSteps + step + i);
      }
    }
  }

 private:
  KVSIM_INLINE static void load_masked(Floats& floats, const float* from,
                                       const std::int32_t* masks) {
    typename Vectors<Target>::Ints bits;
    typename Vectors<Target>::Ints mask;
    std::memcpy(&bits, from, sizeof bits);
    load(mask, masks);
    bits &= mask;
    std::memcpy(&floats, &bits, sizeof floats);
  }
};

template <class Target, int kDims>
KVSIM_INLINE void add_tile(std::span<const Term> added, std::span<const Term> removed, int dim,
                           const double* from, double* to) {
  do {
    const std::size_t more = std::min(kTermsInSingle, added.size());
    const std::size_t less = std::min(kTermsInSingle - more, removed.size());
    for (int step = 0; step < kBlockSteps; step += Tile<Target, kDims>::kSteps) {
      Tile<Target, kDims> tile;
      tile.template add<1>(added.data(), more, step, dim);
      tile.template add<-1>(removed.data(), less, step, dim);
      tile.add_to(from, to, step);
    }
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
KVSIM_INLINE void add_all(std::span<const Term> added, std::span<const Term> removed, int first_dim,
                          int dims, const double* from, double* to) {
  tile_by_tile<Target>(
      dims, [&]<int kDims>(int dim) __attribute__((always_inline)) {
        add_tile<Target, kDims>(added, removed, first_dim + dim, from + dim * kBlockSteps,
                                to + dim * kBlockSteps);
      });
}
KVSIM_KERNEL(void, add_all,
             (std::span<const Term> added, std::span<const Term> removed, int first_dim, int dims,
              const double* from, double* to),
             (added, removed, first_dim, dims, from, to))

template <class Target, int kDims>
KVSIM_INLINE void add_squares_of_tile(const Scaled& a, std::span<const EvictedTerm> evicted,
                                      int dim, const Scaled& b, double* square, float* difference) {
  using Doubles = typename Vectors<Target>::Doubles;
  double sums[kDims * kBlockSteps];
  const double* from = a.rows;
  while (!evicted.empty()) {
    const std::size_t count = std::min(kTermsInSingle, evicted.size());
    for (int step = 0; step < kBlockSteps; step += Tile<Target, kDims>::kSteps) {
      const int end = step + Tile<Target, kDims>::kSteps;
      std::size_t missing = count;  // of these, at some step before `end`
      while (missing > 0 && evicted[missing - 1].first_row >= end) --missing;
      Tile<Target, kDims> tile;
      tile.add(evicted.data(), missing, step, dim);
      tile.add_to(from, sums, step);
    }
    from = sums;
    evicted = evicted.subspan(count);
  }
  for (int step = 0; step < kBlockSteps; step += kDoubles<Target>) {
    Doubles a_scale;
    Doubles b_scale;
    Doubles total;
    load(a_scale, a.scale + step);
    load(b_scale, b.scale + step);
    load(total, square + step);
#pragma GCC unroll 12
    for (int d = 0; d < kDims; ++d) {
      Doubles x;
      Doubles y;
      load(x, from + d * kBlockSteps + step);
      load(y, b.rows + d * kBlockSteps + step);
      x = x * a_scale - y * b_scale;
      total += x * x;
      if (difference == nullptr) continue;
      const auto rounded = __builtin_convertvector(x, typename Vectors<Target>::HalfFloats);
      store(rounded, difference + d * kBlockSteps + step);
    }
    store(total, square + step);
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
      load_as_doubles<Target>(x, a + d * kBlockSteps + step);
      load_as_doubles<Target>(y, b + d * kBlockSteps + step);
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
      load_as_doubles<Target>(doubles, row + v * kDoubles<Target>);
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
