#pragma once

#include <vector>

namespace kvsim::policies_test {

/// Pearson's statistic of counts against shares of the draws; with k cells it has k - 1 degrees of
/// freedom if the shares are right. Seeds are fixed, so a test that passes always does; a right
/// sampler with another generator would exceed each critical value once in 10,000.
inline double chi_square(const std::vector<int>& counts, const std::vector<double>& shares,
                         double draws) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * shares[i];
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

}  // namespace kvsim::policies_test
