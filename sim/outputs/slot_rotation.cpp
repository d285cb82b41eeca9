#include "sim/outputs/slot_rotation.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace kvsim {
namespace {

constexpr int kFineDistances = 2048;

}  // namespace

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

void SlotRotation::add_angles(int distance, std::vector<double>& angles) const {
  for (const double frequency : frequency_) angles.push_back(std::cos(distance * frequency));
  for (const double frequency : frequency_) angles.push_back(std::sin(distance * frequency));
}

// By the sum formulas, in fp64, so that the angles in fp32 are as good as computed ones.
void SlotRotation::turn(const float* key, int distance, float* turned) {
  const std::size_t pairs = frequency_.size();
  const auto coarse = static_cast<std::size_t>(distance / kFineDistances);
  const auto fine = static_cast<std::size_t>(distance % kFineDistances);
  if (fine_.empty()) {
    for (int i = 0; i < kFineDistances; ++i) add_angles(i, fine_);
  }
  while (coarse_.size() <= coarse * 2 * pairs && pairs > 0) {
    add_angles(static_cast<int>(coarse_.size() / (2 * pairs)) * kFineDistances, coarse_);
  }
  const double* far = coarse_.data() + coarse * 2 * pairs;
  const double* near = fine_.data() + fine * 2 * pairs;
  const std::size_t step = interleaved_ ? 2 : 1;
  const std::size_t partner = interleaved_ ? 1 : pairs;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const auto cosine =
        static_cast<float>(far[pair] * near[pair] - far[pairs + pair] * near[pairs + pair]);
    const auto sine =
        static_cast<float>(far[pairs + pair] * near[pair] + far[pair] * near[pairs + pair]);
    const std::size_t a = pair * step;
    const std::size_t b = a + partner;
    turned[a] = key[a] * cosine - key[b] * sine;
    turned[b] = key[b] * cosine + key[a] * sine;
  }
  std::copy(key + 2 * pairs, key + dim_, turned + 2 * pairs);
}

}  // namespace kvsim
