#pragma once

#include <vector>

namespace kvsim {

/// Tokens by tentative distance, for Dijkstra's algorithm: the nearest comes first, the lower token
/// among equals. A search lowers distances about ten times as often as it takes a token, so lower()
/// is two stores, and take() scans the minima of all blocks and then one block.
class DistanceQueue {
 public:
  explicit DistanceQueue(int num_tokens);

  void clear();

  /// Infinity if the token is not in the queue.
  double distance(int token) const { return distance_[token]; }

  /// Adds the token or lowers its distance, which must be above `distance`.
  void lower(int token, double distance) {
    distance_[token] = distance;
    double& least = least_of_block_[token / kBlock];
    if (distance < least) least = distance;
  }

  /// Infinity if the queue is empty.
  double nearest() const;

  /// Removes the nearest token, which is at distance `nearest`.
  int take(double nearest);

 private:
  static constexpr int kBlock = 64;

  // Both padded with infinities, to whole blocks.
  std::vector<double> distance_;
  std::vector<double> least_of_block_;
};

}  // namespace kvsim
