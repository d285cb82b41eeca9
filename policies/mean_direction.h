#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "policies/interface/policy.h"

namespace kvsim {

/// Scores resident tokens by how much the directions of their vectors differ from the mean
/// direction in the cache, as KeyDiff does (section 3).
class MeanDirection {
 public:
  /// The vector of token `index`, which has just arrived.
  void add(int index, std::span<const float> vector) {
    lengths_.resize(static_cast<std::size_t>(index) + 1);
    lengths_.back() = length(vector);
  }

  /// Minus the cosine of each resident vector and their mean direction, times a factor that all
  /// share. `tokens`, `vectors` and `scores` are parallel; each token was added.
  void score(std::span<const std::int32_t> tokens, const ResidentVectors& vectors,
             std::span<double> scores) const {
    std::vector<double> mean(vectors.dim(), 0);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const double share = 1 / length_of(tokens[i]);
      const float* vector = vectors[i].data();
      for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += share * vector[d];
    }
    // Not divided by the length of the mean, which scales all cosines by the same factor.
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i] = -dot_product(vectors[i], mean) / length_of(tokens[i]);
    }
  }

 private:
  double length_of(std::int32_t token) const { return lengths_[static_cast<std::size_t>(token)]; }

  // A zero vector has no direction; the least double keeps its cosine at 0.
  static double length(std::span<const float> vector) {
    const double square = std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0);
    return std::max(std::sqrt(square), std::numeric_limits<double>::min());
  }

  // Partial sums let the compiler use vector instructions.
  static double dot_product(std::span<const float> vector, std::span<const double> mean) {
    std::array<double, 8> sums = {};
    std::size_t d = 0;
    for (; d + sums.size() <= vector.size(); d += sums.size()) {
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += vector[d + k] * mean[d + k];
    }
    for (; d < vector.size(); ++d) sums[0] += vector[d] * mean[d];
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  }

  std::vector<double> lengths_;  // by text position
};

}  // namespace kvsim
