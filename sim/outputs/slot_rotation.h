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

 private:
  void turn_to(int distance);

  int dim_;
  bool interleaved_;
  std::vector<double> frequency_;
  int distance_ = 0;
  std::vector<float> cosine_;  // per rotated pair, for distance_
  std::vector<float> sine_;
};

}  // namespace kvsim
