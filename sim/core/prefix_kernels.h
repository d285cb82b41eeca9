#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/core/attention_kernels.h"

namespace kvsim {

/// Tokens that are added at a time, in fp32.
inline constexpr int kMostPlaces = 64;

/// Neighbours in the order of a step's tokens.
struct WeightedTokens {
  const float* value;  ///< of token 0
  std::size_t stride;  ///< from one token's value to the next, a multiple of 16; padded by zeros
  std::span<const std::int32_t> token;  ///< at most kMostPlaces
  const float* weight;                  ///< of token i: weight[i * kBlockSteps]
};

/// sum = the sum of weight * value, [stride].
void sum_products(const WeightedTokens& tokens, float* sum);

/// sum[d] += sums[d] for d < dims, a multiple of 16.
void add_sums(const float* sums, std::size_t dims, double* sum);

/// Adds weight * (value - output) of all tokens, from the first or from the last one on, to `sum`,
/// both [stride]. With each of them the square of what the sum then is goes to `square`, which is
/// parallel to the tokens and has room for kMostPlaces.
void walk(const WeightedTokens& tokens, bool upwards, const float* output, float* sum,
          float* square);

}  // namespace kvsim
