#pragma once

#include <vector>

#include "traces/unit.h"

namespace kvsim {

/// Moves recorded keys to other positions: what a cache does that rotates keys by their slot
/// instead of their place in the text (StreamingLLM section 3.2, "positions within the cache").
class SlotRotation {
 public:
  /// Throws std::invalid_argument if the unit does not say how its keys were rotated.
  explicit SlotRotation(const Unit& unit);

  /// The product of a recorded query and a recorded key as if the key had stood `distance`
  /// positions later than it did.
  float product(const float* query, const float* key, int distance);

 private:
  void turn_to(int distance);

  int dim_;
  bool interleaved_;
  std::vector<double> frequency_;
  int distance_ = 0;
  std::vector<float> cosine_;  // per rotated pair, of the angle that belongs to distance_
  std::vector<float> sine_;
};

}  // namespace kvsim
