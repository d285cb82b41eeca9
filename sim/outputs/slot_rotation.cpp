#include "sim/outputs/slot_rotation.h"

#include <cmath>
#include <stdexcept>

namespace kvsim {

SlotRotation::SlotRotation(const Unit& unit) : dim_(static_cast<int>(unit.key.cols())) {
  if (!unit.rope) throw std::invalid_argument("the unit does not say how its keys were rotated");
  interleaved_ = unit.rope->style == "interleaved";
  frequency_ = unit.rope->inverse_frequency;
  cosine_.assign(frequency_.size(), 1);
  sine_.assign(frequency_.size(), 0);
}

void SlotRotation::turn_to(int distance) {
  if (distance == distance_) return;
  distance_ = distance;
  for (std::size_t pair = 0; pair < frequency_.size(); ++pair) {
    cosine_[pair] = static_cast<float>(std::cos(distance * frequency_[pair]));
    sine_[pair] = static_cast<float>(std::sin(distance * frequency_[pair]));
  }
}

float SlotRotation::product(const float* query, const float* key, int distance) {
  turn_to(distance);
  const int pairs = static_cast<int>(frequency_.size());
  const int step = interleaved_ ? 2 : 1;
  const int partner = interleaved_ ? 1 : pairs;
  float sum = 0;
  for (int pair = 0; pair < pairs; ++pair) {
    const int a = pair * step;
    const int b = a + partner;
    const float turned_a = key[a] * cosine_[pair] - key[b] * sine_[pair];
    const float turned_b = key[b] * cosine_[pair] + key[a] * sine_[pair];
    sum += query[a] * turned_a + query[b] * turned_b;
  }
  for (int d = 2 * pairs; d < dim_; ++d) sum += query[d] * key[d];
  return sum;
}

}  // namespace kvsim
