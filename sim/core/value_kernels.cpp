#include "sim/core/value_kernels.h"

#include <algorithm>

#include "sim/core/float_lanes.h"

namespace kvsim {
namespace {

constexpr int kTermsInSingle = 128;

// Some dimensions of the sums at all steps; they stay in registers.
template <int kDims>
KVSIM_INLINE void add_tile(const Term* terms, int count, int dim, double sign, double* sum) {
  Lanes tile[kDims][2] = {};
  for (int i = 0; i < count; ++i) {
    Lanes first;
    Lanes second;
    load(first, terms[i].weight);
    load(second, terms[i].weight + kLanes);
    const float* value = terms[i].value + dim;
#pragma GCC unroll 12
    for (int d = 0; d < kDims; ++d) {
      tile[d][0] += first * value[d];
      tile[d][1] += second * value[d];
    }
  }
#pragma GCC unroll 12
  for (int d = 0; d < kDims; ++d) {
    double* to = sum + d * kBlockSteps;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < kLanes; ++i) to[half * kLanes + i] += sign * double{tile[d][half][i]};
    }
  }
}

template <class Target>
KVSIM_INLINE void add_all(const Term* terms, int num_terms, int first_dim, int dims, double sign,
                          double* sum) {
  constexpr int kDims = Target::kFloatRegisters * 3 / 128;
  for (int begin = 0; begin < num_terms; begin += kTermsInSingle) {
    const int count = std::min(kTermsInSingle, num_terms - begin);
    int dim = 0;
    for (; dim + kDims <= dims; dim += kDims) {
      add_tile<kDims>(terms + begin, count, first_dim + dim, sign, sum + dim * kBlockSteps);
    }
    for (; kDims > 4 && dim + 4 <= dims; dim += 4) {
      add_tile<4>(terms + begin, count, first_dim + dim, sign, sum + dim * kBlockSteps);
    }
    for (; dim < dims; ++dim) {
      add_tile<1>(terms + begin, count, first_dim + dim, sign, sum + dim * kBlockSteps);
    }
  }
}
KVSIM_KERNEL(void, add_all,
             (const Term* terms, int num_terms, int first_dim, int dims, double sign, double* sum),
             (terms, num_terms, first_dim, dims, sign, sum))

template <class Target>
KVSIM_INLINE void add_squares(const double* a, const double* a_scale, const double* b,
                              const double* b_scale, int dims, double* square) {
  for (int d = 0; d < dims; ++d) {
    for (int s = 0; s < kBlockSteps; ++s) {
      const double x = a[d * kBlockSteps + s] * a_scale[s] - b[d * kBlockSteps + s] * b_scale[s];
      square[s] += x * x;
    }
  }
}
KVSIM_KERNEL(void, add_squares,
             (const double* a, const double* a_scale, const double* b, const double* b_scale,
              int dims, double* square),
             (a, a_scale, b, b_scale, dims, square))

using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

// kLanes times kTiles dimensions of the sums; they stay in registers.
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
  constexpr int kTiles = Target::kFloatRegisters / 128;
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

std::size_t spread_dims(std::size_t value_dim) {
  const std::size_t lines = (value_dim + kLanes - 1) / kLanes;
  return (lines | 1) * kLanes;
}

AlignedRows spread_values(const Matrix& value) {
  const auto dims = static_cast<std::size_t>(value.cols());
  AlignedRows rows(static_cast<std::size_t>(value.rows()), spread_dims(dims));
  for (std::size_t token = 0; token < static_cast<std::size_t>(value.rows()); ++token) {
    std::copy_n(value.data() + token * dims, dims, rows.row(token));
  }
  return rows;
}

void add_products(std::span<const Term> terms, int first_dim, int dims, double sign, double* sum) {
  best_add_all(terms.data(), static_cast<int>(terms.size()), first_dim, dims, sign, sum);
}

void add_squared_differences(const double* a, const double* a_scale, const double* b,
                             const double* b_scale, int dims, double* square) {
  best_add_squares(a, a_scale, b, b_scale, dims, square);
}

void add_values(const Matrix& value, std::span<const std::int32_t> tokens,
                std::span<const float> weight, double* sum) {
  best_add_in_double(value.data(), static_cast<int>(value.cols()), tokens.data(), weight.data(),
                     tokens.size(), sum);
}

}  // namespace kvsim
