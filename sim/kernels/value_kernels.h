#pragma once

#include <cstdint>
#include <span>

#include "sim/kernels/aligned_rows.h"
#include "sim/kernels/attention_kernels.h"

namespace kvsim {

/// Floats from one row of pad_values() to the next: an odd number of cache lines, so that rows fall
/// into different sets of the processor's cache.
std::size_t padded_value_dim(std::size_t value_dim);

/// A copy of `value`, [tokens, value_dim], with a stride of padded_value_dim().
AlignedRows pad_values(const Matrix& value);

/// The product of a token's weights at the steps of a block and its value.
struct Term {
  const float* weight;  ///< [kBlockSteps]
  const float* value;   ///< [value_dim]
};

/// Sums over the tokens that a cache misses are taken as if it missed them at all steps of a block,
/// or at none, as it does at this row of the block.
inline constexpr int kMiddleRow = kBlockSteps / 2;

/// The term of a token that is evicted during a block and is missing from row `first_row` on. It is
/// in the sum of row kMiddleRow or not: so it is removed from earlier rows or added to later ones.
struct EvictedTerm {
  const float* weight;
  const float* value;
  int first_row;

  constexpr bool is_early() const { return first_row <= kMiddleRow; }
};

/// Products that are added or removed together, and sums of such products, [dims, kBlockSteps].
struct Terms {
  std::span<const Term> added = {};
  std::span<const Term> removed = {};
  std::span<const float* const> added_sums = {};
  std::span<const float* const> removed_sums = {};
};

/// to[d, s] = from[d, s] + the sum of `terms` of weight[s] * value[first_dim + d], those removed
/// with a minus, for d < dims. `from` and `to` are [dims, kBlockSteps] and may be the same. Up to
/// 128 products and all sums are added in fp32, more in fp64.
void add_products(const Terms& terms, int first_dim, int dims, const double* from, double* to);

/// to[d, s] = the sum over `terms` of weight[s] * value[first_dim + d], for d < dims, in fp32.
void sum_terms(std::span<const Term> terms, int first_dim, int dims, float* to);

/// Rows of kBlockSteps numbers, and a factor per step.
struct Scaled {
  const double* rows;
  const double* scale;
};

/// square[s] += the sum over d < dims of x[d, s]², x = a.scale (a.rows - b.scale b.rows), where the
/// products of `evicted`, in ascending order of first_row, first correct the rows of `a`, summed as
/// by add_products(). Unless `difference` is null, it gets x: [dims, kBlockSteps].
void add_squared_differences(const Scaled& a, std::span<const EvictedTerm> evicted, int first_dim,
                             const Scaled& b, int dims, double* square, float* difference);

/// product[s] = the sum over d < dims of a[d, s] * b[d, s], in fp64, for rows of kBlockSteps.
void multiply_columns(const float* a, const float* b, int dims, double* product);

/// sum[d] += sum over i of weight[i] * value(tokens[i], d), in fp64.
void add_values(const Matrix& value, std::span<const std::int32_t> tokens,
                std::span<const float> weight, double* sum);

}  // namespace kvsim
