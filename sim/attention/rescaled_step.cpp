#include "sim/attention/rescaled_step.h"

#include <algorithm>
#include <cmath>

#include "sim/attention/attention.h"

namespace kvsim {

void rescale_weights(const Unit& unit, const float* logit, int text_step, RescaledStep& step) {
  const int begin = first_visible(unit, text_step);
  float largest = unit.sink(step.head);
  for (const std::int32_t token : step.tokens) {
    if (token >= begin) largest = std::max(largest, logit[token]);
  }
  if (std::isinf(largest)) {  // the step selects none of them, and there is no sink
    step.weight.assign(step.tokens.size(), 0);
    step.weight_sum = 1;
    return;
  }
  step.weight.clear();
  step.weight_sum = 0;
  for (const std::int32_t token : step.tokens) {
    step.weight.push_back(token >= begin ? std::exp(logit[token] - largest) : 0.0F);
    step.weight_sum += step.weight.back();
  }
  step.weight_sum += sink_weight(unit, step.head, largest);
}

}  // namespace kvsim
