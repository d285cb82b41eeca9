#pragma once

#include <cstdint>
#include <span>

#include "sim/kernels/aligned_rows.h"
#include "sim/kernels/attention_kernels.h"
#include "sim/kernels/value_panels.h"

namespace kvsim {

/// What products are taken of: the weights of tokens at the steps of a block, [tokens,
/// kBlockSteps], and their values.
struct WeightedValues {
  const AlignedRows& weight_by_token;
  const ValuePanels& values;
};

/// Sums over the tokens that a cache misses are taken as if it missed them at all steps of a block,
/// or at none, as it does at this row of the block.
inline constexpr int kMiddleRow = kBlockSteps / 2;

/// A token that is evicted during a block and is missing from row `first_row` on. Its product is in
/// the sum of row kMiddleRow or not: so it is removed from earlier rows or added to later ones.
struct EvictedTerm {
  std::int32_t token;
  int first_row;

  constexpr bool is_early() const { return first_row <= kMiddleRow; }
};

/// Tokens whose products of weight and value are added or removed together, and sums of such
/// products, [dims, kBlockSteps].
struct Terms {
  std::span<const std::int32_t> added = {};
  std::span<const std::int32_t> removed = {};
  std::span<const float* const> added_sums = {};
  std::span<const float* const> removed_sums = {};
};

// Below, first_dim is a multiple of ValuePanels::kDims.

/// to[d, s] = from[d, s] + the sum over the tokens of `terms` of weight[token, s] *
/// value[token, first_dim + d], those removed with a minus, for d < dims. `from` and `to` are
/// [dims, kBlockSteps] and may be the same. Up to 128 products and all sums are added in fp32, more
/// in fp64.
void add_products(const WeightedValues& of, const Terms& terms, int first_dim, int dims,
                  const double* from, double* to);

/// to[d, s] = the sum over `tokens` of weight[token, s] * value[token, first_dim + d], for d <
/// dims, in fp32.
void sum_products(const WeightedValues& of, std::span<const std::int32_t> tokens, int first_dim,
                  int dims, float* to);

/// Rows of kBlockSteps numbers, and a factor per step.
struct Scaled {
  const double* rows;
  const double* scale;
};

/// square[s] += the sum over d < dims of x[d, s]², x = a.scale (a.rows - b.scale b.rows), where the
/// products of `evicted`, in ascending order of first_row, first correct the rows of `a`, summed as
/// by add_products(). Unless `difference` is null, it gets x: [dims, kBlockSteps]. Squares are
/// added in an order that only `dims` determines: in a full panel those of even dimensions and
/// those of odd ones, then both.
void add_squared_differences(const WeightedValues& of, const Scaled& a,
                             std::span<const EvictedTerm> evicted, int first_dim, const Scaled& b,
                             int dims, double* square, float* difference);

/// product[s] = the sum over d < dims of a[d, s] * b[d, s], in fp64, for rows of kBlockSteps.
void multiply_columns(const float* a, const float* b, int dims, double* product);

/// sum[d] += sum over i of weight[i] * value(tokens[i], d), in fp64.
void add_values(const Matrix& value, std::span<const std::int32_t> tokens,
                std::span<const float> weight, double* sum);

}  // namespace kvsim
