#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kvsim {

/// `count` levels, ascending, for numbers of one dimension: the centres that k-means finds from the
/// numbers at the middles of `count` equal shares of their order, in at most 50 rounds, as many as
/// KVQuant's program asks of scikit-learn. Without numbers all levels are 0.
std::vector<float> kmeans_levels(std::vector<float> numbers, std::size_t count);

/// The level nearest to x, the lower one of two equally near.
float nearest_level(std::span<const float> levels, float x);

/// The number below which this share of `sorted`, ascending and not empty, lies; between two
/// numbers linearly, as NumPy's percentile and torch.quantile do by default.
float quantile(std::span<const float> sorted, double share);

}  // namespace kvsim
