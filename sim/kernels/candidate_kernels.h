#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// The inner loops of the auction (oracle/auction): which of many sums of cost and price are low.
// Sums of floats are rounded once, so they are identical to the last bit on every processor.

namespace kvsim {

/// Writes the places i with cost[i] + price[i] <= limit, in ascending order, and these sums;
/// returns their number. All spans are of cost.size() elements.
std::size_t find_at_most(std::span<const float> cost, const float* price, float limit,
                         std::int32_t* places, float* sums);

/// sums[i] = cost[i] + price[token[i]] for i < count.
void add_prices(const float* cost, const std::int32_t* tokens, std::size_t count,
                const float* price, float* sums);

/// A limit that at least `least` and, unless equal values prevent it, at most `most` of the values
/// do not exceed. Values are at least 0, and there are at least `least` of them, which is at least
/// 1.
float limit_of_rank(std::span<const float> values, std::size_t least, std::size_t most);

/// The least of cost[i] + price[i] in double precision; infinity if there are none.
double lowest_sum(std::span<const float> cost, const double* price);

}  // namespace kvsim
