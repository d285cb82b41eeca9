#pragma once

#include <cstdint>
#include <span>

#include "sim/core/aligned_rows.h"
#include "sim/core/attention_kernels.h"

namespace kvsim {

/// Values with a stride of spread_dims(), which spreads them over the cache's sets.
std::size_t spread_dims(std::size_t value_dim);
AlignedRows spread_values(const Matrix& value);

/// One product of a token's weights at the steps of a block with its value.
struct Term {
  const float* weight;  ///< [kBlockSteps]
  const float* value;   ///< [value_dim]
};

/// sum[d, s] += sign * sum over terms of weight[s] * value[first_dim + d], for d < dims. `sum` is
/// [dims, kBlockSteps]. Products are added in fp32 over at most 128 terms, beyond that in fp64.
void add_products(std::span<const Term> terms, int first_dim, int dims, double sign, double* sum);

/// square[s] += sum over d < dims of (a[d, s] * a_scale[s] - b[d, s] * b_scale[s])², everything
/// being rows of kBlockSteps.
void add_squared_differences(const double* a, const double* a_scale, const double* b,
                             const double* b_scale, int dims, double* square);

/// sum[d] += sum over i of weight[i] * value(tokens[i], d), in fp64.
void add_values(const Matrix& value, std::span<const std::int32_t> tokens,
                std::span<const float> weight, double* sum);

}  // namespace kvsim
