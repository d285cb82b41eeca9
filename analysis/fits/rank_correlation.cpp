#include "analysis/fits/rank_correlation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvsim {

std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    const double shared = static_cast<double>(first + last + 1) / 2;
    for (std::size_t i = first; i < last; ++i) ranks[order[i]] = shared;
    first = last;
  }
  return ranks;
}

std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b) {
  return correlation_of_ranks(ranks(a), ranks(b));
}

std::optional<double> correlation_of_ranks(std::span<const double> ranks_a,
                                           std::span<const double> ranks_b) {
  const double mean = (static_cast<double>(ranks_a.size()) + 1) / 2;
  double covariance = 0;
  double variance_a = 0;
  double variance_b = 0;
  for (std::size_t i = 0; i < ranks_a.size(); ++i) {
    covariance += (ranks_a[i] - mean) * (ranks_b[i] - mean);
    variance_a += (ranks_a[i] - mean) * (ranks_a[i] - mean);
    variance_b += (ranks_b[i] - mean) * (ranks_b[i] - mean);
  }
  if (variance_a == 0 || variance_b == 0) return std::nullopt;
  return covariance / std::sqrt(variance_a * variance_b);
}

}  // namespace kvsim
