#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/kernels/tolerances.h"
#include "traces/unit.h"

namespace kvsim {

/// A step at which the kept weights, that of the sink included, sum to less than kMinWeightSum.
/// They are therefore rescaled: exp(logit - largest kept logit, that of the sink included).
struct RescaledStep {
  int head = 0;
  int row = 0;
  std::vector<std::int32_t> tokens;  ///< ascending
  std::vector<float> weight;         ///< parallel to tokens; 0 of those that the step does not see
  double weight_sum = 0;             ///< with the sink's; 1 if nothing has weight: the output is 0
};

/// Fills in weight and weight_sum for step.head, step.tokens and the step of the text; `logit` is
/// [tokens].
void rescale_weights(const Unit& unit, const float* logit, int text_step, RescaledStep& step);

}  // namespace kvsim
