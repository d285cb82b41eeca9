#include "policies/parts/row_products.h"

#include <cstddef>
#include <type_traits>

#include "sim/base/float_lanes.h"
#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

constexpr std::size_t kTermSums = 8;  // of sum_in_lanes()

template <class Target>
using Doubles = typename Vectors<Target>::Doubles;

template <class Target>
KVSIM_INLINE void load_widened(Doubles<Target>& to, const float* from) {
  typename Vectors<Target>::HalfFloats floats;
  load(floats, from);
  convert(to, floats);
}

/// So many rows side by side, since an addition to a lane waits for the one before.
template <class Target, std::size_t kRows>
KVSIM_INLINE void products_of(const float* const* rows, const double* vector, std::size_t dim,
                              double* products) {
  constexpr std::size_t kWidth = kDoubles<Target>;
  constexpr std::size_t kVectors = kTermSums / kWidth;
  Doubles<Target> sums[kRows][kVectors] = {};
  std::size_t d = 0;
  for (; d + kTermSums <= dim; d += kTermSums) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      Doubles<Target> factor;
      load(factor, vector + d + k * kWidth);
      for (std::size_t row = 0; row < kRows; ++row) {
        Doubles<Target> numbers;
        load_widened<Target>(numbers, rows[row] + d + k * kWidth);
        sums[row][k] += numbers * factor;
      }
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    double lanes[kTermSums];
    for (std::size_t k = 0; k < kVectors; ++k) store(sums[row][k], lanes + k * kWidth);
    for (std::size_t rest = d; rest < dim; ++rest) {
      lanes[0] += static_cast<double>(rows[row][rest]) * vector[rest];
    }
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    products[row] = sum;
  }
}

template <class Target>
KVSIM_INLINE void products_of_rows(const float* const* rows, std::size_t count,
                                   const double* vector, std::size_t dim, double* products) {
  constexpr std::size_t kRows = kDoubles<Target> / 2;
  std::size_t i = 0;
  for (; i + kRows <= count; i += kRows) {
    products_of<Target, kRows>(rows + i, vector, dim, products + i);
  }
  for (; i < count; ++i) products_of<Target, 1>(rows + i, vector, dim, products + i);
}
KVSIM_KERNEL(void, products_of_rows,
             (const float* const* rows, std::size_t count, const double* vector, std::size_t dim,
              double* products),
             (rows, count, vector, dim, products))

constexpr std::size_t kFour = 4;

/// The vectors for four sums: those of AVX2 with AVX-512, too.
template <class Target>
struct InFour {
  using Lanes = Vectors<Target>;
};
template <>
struct InFour<Avx512> {
  using Lanes = Vectors<Avx2>;
};

template <class Target, std::size_t kRows, class Number>
KVSIM_INLINE void products_in_four(const Number* const* rows, const double* vector, std::size_t dim,
                                   double* products) {
  using Lanes = typename InFour<Target>::Lanes;
  using Widened = typename Lanes::Doubles;
  using Loaded = std::conditional_t<std::is_same_v<Number, float>, typename Lanes::HalfFloats,
                                    typename Lanes::Doubles>;
  constexpr std::size_t kWidth = sizeof(Widened) / sizeof(double);
  constexpr std::size_t kVectors = kFour / kWidth;
  Widened sums[kRows][kVectors] = {};
  std::size_t d = 0;
  for (; d + kFour <= dim; d += kFour) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      Widened factor;
      load(factor, vector + d + k * kWidth);
      for (std::size_t row = 0; row < kRows; ++row) {
        Loaded loaded;
        load(loaded, rows[row] + d + k * kWidth);
        if constexpr (std::is_same_v<Number, float>) {
          Widened numbers;
          convert(numbers, loaded);
          sums[row][k] += numbers * factor;
        } else {
          sums[row][k] += loaded * factor;
        }
      }
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    double lanes[kFour];
    for (std::size_t k = 0; k < kVectors; ++k) store(sums[row][k], lanes + k * kWidth);
    for (std::size_t rest = d; rest < dim; ++rest) {
      lanes[0] += static_cast<double>(rows[row][rest]) * vector[rest];
    }
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    products[row] = sum;
  }
}

template <class Target, class Number>
KVSIM_INLINE void all_in_four(const Number* const* rows, std::size_t count, const double* vector,
                              std::size_t dim, double* products) {
  constexpr std::size_t kRows = kDoubles<Target> == 2 ? 4 : 8;
  std::size_t i = 0;
  for (; i + kRows <= count; i += kRows) {
    products_in_four<Target, kRows>(rows + i, vector, dim, products + i);
  }
  for (; i < count; ++i) products_in_four<Target, 1>(rows + i, vector, dim, products + i);
}

template <class Target>
KVSIM_INLINE void floats_in_four(const float* const* rows, std::size_t count, const double* vector,
                                 std::size_t dim, double* products) {
  all_in_four<Target>(rows, count, vector, dim, products);
}
KVSIM_KERNEL(void, floats_in_four,
             (const float* const* rows, std::size_t count, const double* vector, std::size_t dim,
              double* products),
             (rows, count, vector, dim, products))

template <class Target>
KVSIM_INLINE void doubles_in_four(const double* const* rows, std::size_t count,
                                  const double* vector, std::size_t dim, double* products) {
  all_in_four<Target>(rows, count, vector, dim, products);
}
KVSIM_KERNEL(void, doubles_in_four,
             (const double* const* rows, std::size_t count, const double* vector, std::size_t dim,
              double* products),
             (rows, count, vector, dim, products))

template <class Target, std::size_t kVectors>
KVSIM_INLINE void sums_of(const float* const* rows, std::size_t count, const double* weights,
                          std::size_t d, double* sums) {
  constexpr std::size_t kWidth = kDoubles<Target>;
  Doubles<Target> total[kVectors] = {};
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      Doubles<Target> numbers;
      load_widened<Target>(numbers, rows[i] + d + k * kWidth);
      total[k] += weights[i] * numbers;
    }
  }
  for (std::size_t k = 0; k < kVectors; ++k) store(total[k], sums + d + k * kWidth);
}

template <class Target>
KVSIM_INLINE void sums_of_rows(const float* const* rows, std::size_t count, const double* weights,
                               double* sums, std::size_t dim) {
  constexpr std::size_t kVectors = Target::kRegisters / 4;
  constexpr std::size_t kWidth = kDoubles<Target>;
  std::size_t d = 0;
  for (; d + kVectors * kWidth <= dim; d += kVectors * kWidth) {
    sums_of<Target, kVectors>(rows, count, weights, d, sums);
  }
  for (; d + kWidth <= dim; d += kWidth) sums_of<Target, 1>(rows, count, weights, d, sums);
  for (; d < dim; ++d) {
    sums[d] = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sums[d] += weights[i] * static_cast<double>(rows[i][d]);
    }
  }
}
KVSIM_KERNEL(void, sums_of_rows,
             (const float* const* rows, std::size_t count, const double* weights, double* sums,
              std::size_t dim),
             (rows, count, weights, sums, dim))

}  // namespace

void row_products(std::span<const float* const> rows, std::span<const double> vector,
                  double* products) {
  best_products_of_rows(rows.data(), rows.size(), vector.data(), vector.size(), products);
}

void row_products_in_four(std::span<const float* const> rows, std::span<const double> vector,
                          double* products) {
  best_floats_in_four(rows.data(), rows.size(), vector.data(), vector.size(), products);
}

void row_products_in_four(std::span<const double* const> rows, std::span<const double> vector,
                          double* products) {
  best_doubles_in_four(rows.data(), rows.size(), vector.data(), vector.size(), products);
}

void weighted_row_sums(std::span<const float* const> rows, const double* weights,
                       std::span<double> sums) {
  best_sums_of_rows(rows.data(), rows.size(), weights, sums.data(), sums.size());
}

}  // namespace kvsim
