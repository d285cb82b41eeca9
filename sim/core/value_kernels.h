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

/// One that counts only at the steps of a block from `first_step` on.
struct LateTerm {
  const float* weight;
  const float* value;
  int first_step;
};

/// to[d, s] = from[d, s] + the sum over `added`, less that over `removed`, of
/// weight[s] * value[first_dim + d], for d < dims. `from` and `to` are [dims, kBlockSteps] and may
/// be the same. Products are added in fp32 over at most 128 terms, beyond that in fp64.
void add_products(std::span<const Term> added, std::span<const Term> removed, int first_dim,
                  int dims, const double* from, double* to);

/// Rows of kBlockSteps numbers, each to be multiplied by the scale of its step.
struct Scaled {
  const double* rows;
  const double* scale;
};

/// square[s] += sum over d < dims of (a[d, s] - b[d, s])², with the products of `late` added to the
/// rows of a as by add_products().
void add_squared_differences(const Scaled& a, std::span<const LateTerm> late, int first_dim,
                             const Scaled& b, int dims, double* square);

/// sum[d] += sum over i of weight[i] * value(tokens[i], d), in fp64.
void add_values(const Matrix& value, std::span<const std::int32_t> tokens,
                std::span<const float> weight, double* sum);

}  // namespace kvsim
