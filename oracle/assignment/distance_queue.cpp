#include "oracle/assignment/distance_queue.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kMinimumLanes = 8;

int round_up(int count, int multiple) { return (count + multiple - 1) / multiple * multiple; }

/// `count` is a multiple of kMinimumLanes. Lanes, because every update of a single minimum would
/// wait for the last.
template <class Target>
KVSIM_INLINE double least_of(const double* values, std::size_t count) {
  double least[kMinimumLanes];
  std::copy(values, values + kMinimumLanes, least);
  for (std::size_t i = kMinimumLanes; i < count; i += kMinimumLanes) {
    for (std::size_t lane = 0; lane < kMinimumLanes; ++lane) {
      least[lane] = values[i + lane] < least[lane] ? values[i + lane] : least[lane];
    }
  }
  return *std::min_element(least, least + kMinimumLanes);
}
KVSIM_KERNEL(double, least_of, (const double* values, std::size_t count), (values, count))

/// The first place of `value`, which is among the values; `count` is a multiple of kMinimumLanes.
template <class Target>
KVSIM_INLINE std::size_t find_in(const double* values, std::size_t count, double value) {
  std::size_t begin = 0;
  for (; begin < count; begin += kMinimumLanes) {
    std::int64_t found = 0;
    for (std::size_t lane = 0; lane < kMinimumLanes; ++lane) {
      found |= values[begin + lane] == value ? -1 : 0;
    }
    if (found != 0) break;
  }
  while (values[begin] != value) ++begin;
  return begin;
}
KVSIM_KERNEL(std::size_t, find_in, (const double* values, std::size_t count, double value),
             (values, count, value))

}  // namespace

DistanceQueue::DistanceQueue(int num_tokens)
    : distance_(round_up(num_tokens, kBlock), kInfinity),
      least_of_block_(round_up(round_up(num_tokens, kBlock) / kBlock, int{kMinimumLanes}),
                      kInfinity) {}

void DistanceQueue::clear() {
  std::fill(distance_.begin(), distance_.end(), kInfinity);
  std::fill(least_of_block_.begin(), least_of_block_.end(), kInfinity);
}

double DistanceQueue::nearest() const {
  return best_least_of(least_of_block_.data(), least_of_block_.size());
}

int DistanceQueue::take(double nearest) {
  const std::size_t block = best_find_in(least_of_block_.data(), least_of_block_.size(), nearest);
  double* distances = distance_.data() + block * kBlock;
  const std::size_t place = best_find_in(distances, kBlock, nearest);
  distances[place] = kInfinity;
  least_of_block_[block] = best_least_of(distances, kBlock);
  return static_cast<int>(block * kBlock + place);
}

}  // namespace kvsim
