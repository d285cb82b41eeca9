#pragma once

#include <array>
#include <cstddef>
#include <numeric>

namespace kvsim {

/// The sum of term(0) .. term(count - 1), in several sums at a time, so that additions do not wait
/// for one another.
template <std::size_t kLanes = 8, class Term>
double sum_in_lanes(std::size_t count, Term term) {
  std::array<double, kLanes> sums = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += term(i + lane);
  }
  for (; i < count; ++i) sums[0] += term(i);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace kvsim
