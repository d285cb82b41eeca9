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

/// The term of a token that is evicted during a block: added only from row `first_row` of the
/// block on, the first at which the token is missing.
struct EvictedTerm {
  const float* weight;
  const float* value;
  int first_row;
};

/// to[d, s] = from[d, s] + the sum over `added` minus the sum over `removed` of
/// weight[s] * value[first_dim + d], for d < dims. `from` and `to` are [dims, kBlockSteps] and may
/// be the same. Sums over up to 128 terms are fp32, beyond that fp64.
void add_products(std::span<const Term> added, std::span<const Term> removed, int first_dim,
                  int dims, const double* from, double* to);

/// Rows of kBlockSteps numbers; the number of step s is multiplied by scale[s].
struct Scaled {
  const double* rows;
  const double* scale;
};

/// square[s] += the sum over d < dims of (a[d, s] - b[d, s])², where the products of `evicted`,
/// in ascending order of first_row, are first added to the rows of `a` as by add_products(). Unless
/// `difference` is null, it gets a - b: [dims, kBlockSteps].
void add_squared_differences(const Scaled& a, std::span<const EvictedTerm> evicted, int first_dim,
                             const Scaled& b, int dims, double* square, float* difference);

/// product[s] = the sum over d < dims of a[d, s] * b[d, s], in fp64, for rows of kBlockSteps.
void multiply_columns(const float* a, const float* b, int dims, double* product);

/// sum[d] += sum over i of weight[i] * value(tokens[i], d), in fp64.
void add_values(const Matrix& value, std::span<const std::int32_t> tokens,
                std::span<const float> weight, double* sum);

}  // namespace kvsim
