#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// The inner loops of curves. Results are identical to the last bit on every processor.

namespace kvsim {

/// gathered[i] = row[order[i]]; attention[i] += gathered[i] * scale; count[i] += 1 where
/// gathered[i] > limit.
void add_in_order(const float* row, std::span<const std::int32_t> order, double scale, float limit,
                  float* gathered, double* attention, std::int32_t* count);

/// gathered[i] = row[order[i]] for i >= begin.
void gather(const double* row, std::span<const std::int32_t> order, std::size_t begin,
            double* gathered);

/// Skips groups of 32 places from `begin` on in which every score exceeds `low`. Returns the begin
/// of the first group with a score <= low, or `end`.
std::size_t skip_higher_scores(const double* score, double low, std::size_t begin, std::size_t end);

/// The sum over d < dim of (sum[d] - weight * output[d])^2.
double squared_distance(const double* sum, double weight, const double* output, std::size_t dim);

}  // namespace kvsim
