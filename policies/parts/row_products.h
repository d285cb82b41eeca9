#pragma once

#include <cassert>
#include <cstddef>
#include <span>
#include <vector>

namespace kvsim {

// Products of many rows of floats or doubles with vectors of doubles, in double precision and
// identical to the last bit on every processor. Each row is as long as the vector or longer.

/// products[i] = sum_in_lanes(vector.size(), [&](d) { return rows[i][d] * vector[d]; }).
void row_products(std::span<const float* const> rows, std::span<const double> vector,
                  double* products);

/// The same of several vectors with `dim` elements each, [vector][row]: rows are read once for
/// some.
void row_products(std::span<const float* const> rows, std::span<const double* const> vectors,
                  std::size_t dim, std::span<double* const> products);

/// The same, of vectors that are listed one by one.
class RowProducts {
 public:
  /// Keeps where both are: they have to stay until compute(). All vectors are of the same length.
  void add(const std::vector<double>& vector, std::vector<double>& products) {
    assert(vectors_.empty() || vector.size() == dim_);
    vectors_.push_back(vector.data());
    products_.push_back(products.data());
    dim_ = vector.size();
  }
  void add(const std::vector<double>&& vector, std::vector<double>& products) = delete;
  void compute(std::span<const float* const> rows) const {
    row_products(rows, vectors_, dim_, products_);
  }

 private:
  std::vector<const double*> vectors_;
  std::vector<double*> products_;
  std::size_t dim_ = 0;
};

/// products[i] = sum_in_lanes<4>(vector.size(), [&](d) { return rows[i][d] * vector[d]; }).
void row_products_in_four(std::span<const float* const> rows, std::span<const double> vector,
                          double* products);
void row_products_in_four(std::span<const double* const> rows, std::span<const double> vector,
                          double* products);

/// sums[d] = the sum of weights[i] * rows[i][d], from the first row on.
void weighted_row_sums(std::span<const float* const> rows, const double* weights,
                       std::span<double> sums);

/// The same of several lists of weights, one for each of `sums`, [dim] each.
void weighted_row_sums(std::span<const float* const> rows, std::span<const double* const> weights,
                       std::span<double* const> sums, std::size_t dim);

/// For rows of floats as long as the vector: squares[i] = the sum over d of (x[i] * rows[i][d] -
/// y[i] * vector[d])^2, as sum_in_lanes() adds.
void squares_of_differences(std::span<const float* const> rows, const double* x,
                            std::span<const double> vector, const double* y, double* squares);

}  // namespace kvsim
