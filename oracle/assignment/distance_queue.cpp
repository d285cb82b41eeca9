#include "oracle/assignment/distance_queue.h"

#include <algorithm>
#include <array>
#include <limits>

namespace kvsim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMinimumLanes = 8;

int round_up(int count, int multiple) { return (count + multiple - 1) / multiple * multiple; }

/// `count` is a multiple of kMinimumLanes. Lanes, because every update of a single minimum would
/// wait for the last.
double least(const double* values, std::size_t count) {
  std::array<double, kMinimumLanes> least;
  std::copy(values, values + kMinimumLanes, least.begin());
  for (std::size_t i = kMinimumLanes; i < count; i += kMinimumLanes) {
    for (std::size_t lane = 0; lane < kMinimumLanes; ++lane) {
      least[lane] = values[i + lane] < least[lane] ? values[i + lane] : least[lane];
    }
  }
  return *std::min_element(least.begin(), least.end());
}

}  // namespace

DistanceQueue::DistanceQueue(int num_tokens)
    : distance_(round_up(num_tokens, kBlock), kInfinity),
      least_of_block_(round_up(round_up(num_tokens, kBlock) / kBlock, kMinimumLanes), kInfinity) {}

void DistanceQueue::clear() {
  std::fill(distance_.begin(), distance_.end(), kInfinity);
  std::fill(least_of_block_.begin(), least_of_block_.end(), kInfinity);
}

double DistanceQueue::nearest() const {
  return least(least_of_block_.data(), least_of_block_.size());
}

int DistanceQueue::take(double nearest) {
  const auto least_block = std::find(least_of_block_.begin(), least_of_block_.end(), nearest);
  const auto begin = distance_.begin() + (least_block - least_of_block_.begin()) * kBlock;
  const auto token = std::find(begin, begin + kBlock, nearest);
  *token = kInfinity;
  *least_block = least(&*begin, kBlock);
  return static_cast<int>(token - distance_.begin());
}

}  // namespace kvsim
