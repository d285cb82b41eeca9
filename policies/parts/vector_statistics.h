#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kvsim {

/// The mean and the covariance of the vectors added so far.
class VectorStatistics {
 public:
  VectorStatistics(std::size_t dim, bool with_covariance)
      : sums_(dim, 0), products_(with_covariance ? dim * dim : 0, 0), product_(dim) {}

  /// `vector` is [dim].
  void add(std::span<const double> vector) {
    ++count_;
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += vector[i];
    if (products_.empty()) return;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      double* row = &products_[i * sums_.size()];
      for (std::size_t j = 0; j < sums_.size(); ++j) row[j] += vector[i] * vector[j];
    }
  }

  /// <x, mean>, for `x` of [dim] and at least one vector.
  double mean_along(std::span<const double> x) const { return dot(x, sums_.data()) / count_; }

  /// x^T C x, the variance of <x, vector>, with the number of vectors as divisor.
  double variance_along(std::span<const double> x) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      product_[i] = dot(x, &products_[i * sums_.size()]);
    }
    const double mean = mean_along(x);
    return dot(x, product_.data()) / count_ - mean * mean;
  }

 private:
  static double dot(std::span<const double> x, const double* y) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
    return sum;
  }

  double count_ = 0;
  std::vector<double> sums_;      // of the vectors, [dim]
  std::vector<double> products_;  // of their outer products, [dim, dim]; empty without covariance
  std::vector<double> product_;   // scratch
};

}  // namespace kvsim
