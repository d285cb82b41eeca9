#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/kernels/attention_kernels.h"

namespace kvsim {

/// Tokens that are summed at a time in fp32.
inline constexpr int kMaxTokensPerSum = 64;

/// Consecutive tokens in the order of one step, with their values and weights.
struct WeightedTokens {
  const float* value;                   ///< [tokens, stride], by token
  std::size_t stride;                   ///< a multiple of 16; rows are padded with zeros
  std::span<const std::int32_t> token;  ///< at most kMaxTokensPerSum
  const float* weight;                  ///< weight[i * kBlockSteps] belongs to token[i]
};

/// sum = the sum of weight * value, in fp32, [stride].
void sum_products(const WeightedTokens& tokens, float* sum);

/// sum[d] += sums[d] for d < dims, a multiple of 16.
void add_sums(const float* sums, std::size_t dims, double* sum);

/// Adds weight * (value - output) to `sum` token by token, from the first if `from_first`, else
/// from the last. square[i] = |sum|^2 after token i. `output` and `sum` are [stride], `square` is
/// [kMaxTokensPerSum].
void add_running_squares(const WeightedTokens& tokens, bool from_first, const float* output,
                         float* sum, float* square);

}  // namespace kvsim
