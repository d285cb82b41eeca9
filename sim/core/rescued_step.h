#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvsim {

/// Below this the weights of what is kept, taken against the largest logit of the full attention,
/// are taken again against their own: the smaller ones would underflow.
inline constexpr double kLeastWeightSum = 1e-3;

/// A step at which all that a cache kept is small against what it lost, so that its weights are its
/// own: exp(logit - largest logit kept).
struct RescuedStep {
  int head = 0;
  int row = 0;
  std::vector<std::int32_t> tokens;  ///< ascending
  std::vector<float> weight;         ///< parallel to tokens; 0 before first_visible
  double weight_sum = 0;
};

/// Fills in the weights of step.tokens; `logit` is by token.
void rescue_weights(const float* logit, int first_visible, RescuedStep& step);

/// What turns weights into one of `num_heads` equal parts of a mean attention, in fp32.
constexpr float attention_scale(double weight_sum, double num_heads) {
  return static_cast<float>(1 / (weight_sum * num_heads));
}

}  // namespace kvsim
