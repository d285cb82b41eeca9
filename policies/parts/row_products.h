#pragma once

#include <span>

namespace kvsim {

// Products of many rows of floats or doubles with vectors of doubles, in double precision and
// identical to the last bit on every processor. Each row is as long as the vector or longer.

/// products[i] = sum_in_lanes(vector.size(), [&](d) { return rows[i][d] * vector[d]; }).
void row_products(std::span<const float* const> rows, std::span<const double> vector,
                  double* products);

/// products[i] = sum_in_lanes<4>(vector.size(), [&](d) { return rows[i][d] * vector[d]; }).
void row_products_in_four(std::span<const float* const> rows, std::span<const double> vector,
                          double* products);
void row_products_in_four(std::span<const double* const> rows, std::span<const double> vector,
                          double* products);

/// sums[d] = the sum of weights[i] * rows[i][d], from the first row on.
void weighted_row_sums(std::span<const float* const> rows, const double* weights,
                       std::span<double> sums);

}  // namespace kvsim
