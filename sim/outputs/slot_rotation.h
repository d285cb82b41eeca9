#pragma once

#include <vector>

#include "traces/unit.h"

namespace kvsim {

/// Rotates recorded keys to other positions, for caches that encode positions within the cache
/// instead of positions in the text (StreamingLLM section 3.2).
class SlotRotation {
 public:
  /// Throws std::invalid_argument if the unit has no rope parameters.
  explicit SlotRotation(const Unit& unit);

  /// The product of a recorded query and a recorded key, both [head_dim], with the key moved by
  /// `distance` positions towards the end of the text.
  float product(const float* query, const float* key, int distance);

  /// Moves a recorded key, [head_dim], by `distance` >= 0 positions towards the end of the text.
  /// For many distances: looks angles up where product() computes them.
  void turn(const float* key, int distance, float* turned);

 private:
  void turn_to(int distance);
  void add_angles(int distance, std::vector<double>& angles) const;

  int dim_;
  bool interleaved_;
  std::vector<double> frequency_;
  int distance_ = 0;
  std::vector<float> cosine_;  // per rotated pair, for distance_
  std::vector<float> sine_;

  // For turn(): cosines, then sines of all pairs, at distances 0, 1, ... and at multiples of them.
  std::vector<double> fine_;
  std::vector<double> coarse_;
};

}  // namespace kvsim
