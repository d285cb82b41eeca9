#include "policies/parts/row_products.h"

#include <cstddef>
#include <numeric>
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

/// So many rows and vectors side by side, since an addition to a lane waits for the one before.
template <class Target, std::size_t kRows, std::size_t kFactors>
KVSIM_INLINE void products_of(const float* const* rows, const double* const* vectors,
                              std::size_t dim, double* const* products, std::size_t first) {
  constexpr std::size_t kWidth = kDoubles<Target>;
  constexpr std::size_t kVectors = kTermSums / kWidth;
  Doubles<Target> sums[kRows][kFactors][kVectors];
  for (auto& of_row : sums) {  // gcc would clear them all in memory
    for (auto& of_vector : of_row) {
      for (Doubles<Target>& sum : of_vector) sum = Doubles<Target>{};
    }
  }
  std::size_t d = 0;
  for (; d + kTermSums <= dim; d += kTermSums) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      Doubles<Target> factors[kFactors];
      for (std::size_t v = 0; v < kFactors; ++v) load(factors[v], vectors[v] + d + k * kWidth);
      for (std::size_t row = 0; row < kRows; ++row) {
        Doubles<Target> numbers;
        load_widened<Target>(numbers, rows[first + row] + d + k * kWidth);
        for (std::size_t v = 0; v < kFactors; ++v) sums[row][v][k] += numbers * factors[v];
      }
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t v = 0; v < kFactors; ++v) {
      double lanes[kTermSums];
      for (std::size_t k = 0; k < kVectors; ++k) store(sums[row][v][k], lanes + k * kWidth);
      for (std::size_t rest = d; rest < dim; ++rest) {
        lanes[0] += static_cast<double>(rows[first + row][rest]) * vectors[v][rest];
      }
      products[v][first + row] = std::accumulate(lanes, lanes + kTermSums, 0.0);
    }
  }
}

template <class Target, std::size_t kFactors>
KVSIM_INLINE void products_with(const float* const* rows, std::size_t count,
                                const double* const* vectors, std::size_t dim,
                                double* const* products) {
  constexpr std::size_t kRows = kFactors == 1           ? kDoubles<Target> / 2
                                : kDoubles<Target> == 8 ? 4
                                                        : 1;
  std::size_t i = 0;
  for (; i + kRows <= count; i += kRows) {
    products_of<Target, kRows, kFactors>(rows, vectors, dim, products, i);
  }
  for (; i < count; ++i) products_of<Target, 1, kFactors>(rows, vectors, dim, products, i);
}

template <class Target>
KVSIM_INLINE void products_of_rows(const float* const* rows, std::size_t count,
                                   const double* const* vectors, std::size_t num_vectors,
                                   std::size_t dim, double* const* products) {
  std::size_t v = 0;
  for (; v + 4 <= num_vectors; v += 4) {
    products_with<Target, 4>(rows, count, vectors + v, dim, products + v);
  }
  const std::size_t rest = num_vectors - v;
  if (rest == 3) products_with<Target, 3>(rows, count, vectors + v, dim, products + v);
  if (rest == 2) products_with<Target, 2>(rows, count, vectors + v, dim, products + v);
  if (rest == 1) products_with<Target, 1>(rows, count, vectors + v, dim, products + v);
}
KVSIM_KERNEL(void, products_of_rows,
             (const float* const* rows, std::size_t count, const double* const* vectors,
              std::size_t num_vectors, std::size_t dim, double* const* products),
             (rows, count, vectors, num_vectors, dim, products))

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

template <class Target, std::size_t kVectors, std::size_t kSums>
KVSIM_INLINE void sums_of(const float* const* rows, std::size_t count, const double* const* weights,
                          std::size_t d, double* const* sums) {
  constexpr std::size_t kWidth = kDoubles<Target>;
  Doubles<Target> total[kSums][kVectors] = {};
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      Doubles<Target> numbers;
      load_widened<Target>(numbers, rows[i] + d + k * kWidth);
      for (std::size_t s = 0; s < kSums; ++s) total[s][k] += weights[s][i] * numbers;
    }
  }
  for (std::size_t s = 0; s < kSums; ++s) {
    for (std::size_t k = 0; k < kVectors; ++k) store(total[s][k], sums[s] + d + k * kWidth);
  }
}

template <class Target, std::size_t kVectors, std::size_t kSums>
KVSIM_INLINE void several_sums(const float* const* rows, std::size_t count,
                               const double* const* weights, double* const* sums, std::size_t dim) {
  constexpr std::size_t kWidth = kDoubles<Target>;
  std::size_t d = 0;
  for (; d + kVectors * kWidth <= dim; d += kVectors * kWidth) {
    sums_of<Target, kVectors, kSums>(rows, count, weights, d, sums);
  }
  for (; d + kWidth <= dim; d += kWidth) {
    sums_of<Target, 1, kSums>(rows, count, weights, d, sums);
  }
  for (; d < dim; ++d) {
    for (std::size_t s = 0; s < kSums; ++s) {
      double total = 0;
      for (std::size_t i = 0; i < count; ++i) {
        total += weights[s][i] * static_cast<double>(rows[i][d]);
      }
      sums[s][d] = total;
    }
  }
}

template <class Target>
KVSIM_INLINE void sums_of_rows(const float* const* rows, std::size_t count,
                               const double* const* weights, double* const* sums,
                               std::size_t num_sums, std::size_t dim) {
  std::size_t s = 0;
  for (; s + 3 <= num_sums; s += 3) {
    several_sums<Target, Target::kRegisters / 4, 3>(rows, count, weights + s, sums + s, dim);
  }
  for (; s < num_sums; ++s) {
    several_sums<Target, Target::kRegisters / 4, 1>(rows, count, weights + s, sums + s, dim);
  }
}
KVSIM_KERNEL(void, sums_of_rows,
             (const float* const* rows, std::size_t count, const double* const* weights,
              double* const* sums, std::size_t num_sums, std::size_t dim),
             (rows, count, weights, sums, num_sums, dim))

template <class Target, std::size_t kRows>
KVSIM_INLINE void differences_of(const float* const* rows, const double* x, const double* vector,
                                 std::size_t dim, const double* y, double* squares) {
  constexpr std::size_t kWidth = kDoubles<Target>;
  constexpr std::size_t kVectors = kTermSums / kWidth;
  Doubles<Target> sums[kRows][kVectors] = {};
  std::size_t d = 0;
  for (; d + kTermSums <= dim; d += kTermSums) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      Doubles<Target> subtracted;
      load(subtracted, vector + d + k * kWidth);
      for (std::size_t row = 0; row < kRows; ++row) {
        Doubles<Target> numbers;
        load_widened<Target>(numbers, rows[row] + d + k * kWidth);
        const Doubles<Target> difference = x[row] * numbers - y[row] * subtracted;
        sums[row][k] += difference * difference;
      }
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    double lanes[kTermSums];
    for (std::size_t k = 0; k < kVectors; ++k) store(sums[row][k], lanes + k * kWidth);
    for (std::size_t rest = d; rest < dim; ++rest) {
      const double difference = x[row] * double{rows[row][rest]} - y[row] * vector[rest];
      lanes[0] += difference * difference;
    }
    squares[row] = std::accumulate(lanes, lanes + kTermSums, 0.0);
  }
}

template <class Target>
KVSIM_INLINE void all_differences(const float* const* rows, std::size_t count, const double* x,
                                  const double* vector, std::size_t dim, const double* y,
                                  double* squares) {
  constexpr std::size_t kRows = kDoubles<Target> / 2;
  std::size_t i = 0;
  for (; i + kRows <= count; i += kRows) {
    differences_of<Target, kRows>(rows + i, x + i, vector, dim, y + i, squares + i);
  }
  for (; i < count; ++i) {
    differences_of<Target, 1>(rows + i, x + i, vector, dim, y + i, squares + i);
  }
}
KVSIM_KERNEL(void, all_differences,
             (const float* const* rows, std::size_t count, const double* x, const double* vector,
              std::size_t dim, const double* y, double* squares),
             (rows, count, x, vector, dim, y, squares))

}  // namespace

void row_products(std::span<const float* const> rows, std::span<const double> vector,
                  double* products) {
  const double* const vectors[] = {vector.data()};
  row_products(rows, vectors, vector.size(), {&products, 1});
}

void row_products(std::span<const float* const> rows, std::span<const double* const> vectors,
                  std::size_t dim, std::span<double* const> products) {
  best_products_of_rows(rows.data(), rows.size(), vectors.data(), vectors.size(), dim,
                        products.data());
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
  double* const of_weights[] = {sums.data()};
  weighted_row_sums(rows, {&weights, 1}, of_weights, sums.size());
}

void weighted_row_sums(std::span<const float* const> rows, std::span<const double* const> weights,
                       std::span<double* const> sums, std::size_t dim) {
  best_sums_of_rows(rows.data(), rows.size(), weights.data(), sums.data(), sums.size(), dim);
}

void squares_of_differences(std::span<const float* const> rows, const double* x,
                            std::span<const double> vector, const double* y, double* squares) {
  best_all_differences(rows.data(), rows.size(), x, vector.data(), vector.size(), y, squares);
}

}  // namespace kvsim
