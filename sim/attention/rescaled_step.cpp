#include "sim/attention/rescaled_step.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvsim {

void rescale_weights(const float* logit, int first_visible, RescaledStep& step) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const std::int32_t token : step.tokens) {
    if (token >= first_visible) largest = std::max(largest, logit[token]);
  }
  step.weight.clear();
  step.weight_sum = 0;
  for (const std::int32_t token : step.tokens) {
    step.weight.push_back(token >= first_visible ? std::exp(logit[token] - largest) : 0.0F);
    step.weight_sum += step.weight.back();
  }
}

}  // namespace kvsim
