#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// What the steps of a curve spend their time with. The same to the last bit on every processor.

namespace kvsim {

/// gathered[i] = row[order[i]], attention[i] += gathered[i] * scale, and count[i] += 1 where
/// gathered[i] > limit.
void add_in_order(const float* row, std::span<const std::int32_t> order, double scale, float limit,
                  float* gathered, double* attention, std::int32_t* count);

/// gathered[i] = row[order[i]] from `begin` on.
void gather(const double* row, std::span<const std::int32_t> order, std::size_t begin,
            double* gathered);

/// The first place in [begin, end) that may have a score of `low` or less, or `end`; that place or
/// one of the 31 after it has.
std::size_t next_low(const double* score, double low, std::size_t begin, std::size_t end);

/// The sum of (sum[d] - weight * output[d])^2.
double squared_distance(const double* sum, double weight, const double* output, std::size_t dim);

}  // namespace kvsim
