#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace kvsim {

/// Of each element and its neighbours, `kernel` in all, the maximum or the sum (SnapKV
/// section 4.1). Beyond either end are zeros: averages then have the same divisor, and sums give
/// their order.
inline std::vector<double> pool_neighbours(std::span<const double> votes, std::size_t kernel,
                                           bool maximum) {
  std::vector<double> pooled;
  for (std::size_t i = 0; i < votes.size(); ++i) {
    const std::size_t first = i - std::min(i, kernel / 2);
    const auto around = votes.subspan(first, std::min(i + (kernel + 1) / 2, votes.size()) - first);
    pooled.push_back(maximum ? *std::max_element(around.begin(), around.end())
                             : std::accumulate(around.begin(), around.end(), 0.0));
  }
  return pooled;
}

}  // namespace kvsim
