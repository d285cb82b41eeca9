#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/kernels/tolerances.h"

namespace kvsim {

/// A step at which the kept weights sum to less than kMinWeightSum. They are therefore rescaled:
/// exp(logit - largest kept logit).
struct RescaledStep {
  int head = 0;
  int row = 0;
  std::vector<std::int32_t> tokens;  ///< ascending
  std::vector<float> weight;         ///< parallel to tokens; 0 before first_visible
  double weight_sum = 0;
};

/// Fills in weight and weight_sum for step.tokens; `logit` is [tokens].
void rescale_weights(const float* logit, int first_visible, RescaledStep& step);

}  // namespace kvsim
