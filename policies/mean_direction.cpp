#include "policies/mean_direction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "policies/parts/row_products.h"

namespace kvsim {

void MeanDirection::add(int index, std::span<const float> vector) {
  const double square = std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0);
  // A zero vector has no direction; the least double keeps its cosine at 0.
  const double length = std::max(std::sqrt(square), std::numeric_limits<double>::min());
  lengths_.resize(static_cast<std::size_t>(index) + 1);
  lengths_.back() = length;
  inverse_lengths_.resize(lengths_.size());
  inverse_lengths_.back() = 1 / length;
}

void MeanDirection::score(std::span<const std::int32_t> tokens, const ResidentVectors& vectors,
                          std::span<double> scores) {
  rows_.resize(scores.size());
  shares_.resize(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    rows_[i] = vectors[i].data();
    shares_[i] = inverse_lengths_[static_cast<std::size_t>(tokens[i])];
  }
  // Not divided by the length of the mean, which scales all cosines by the same factor.
  mean_.resize(vectors.dim());
  weighted_row_sums(rows_, shares_.data(), mean_);
  row_products(rows_, mean_, scores.data());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = -scores[i] / lengths_[static_cast<std::size_t>(tokens[i])];
  }
}

}  // namespace kvsim
