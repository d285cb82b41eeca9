#include "sim/tiers/approximate_attention.h"

#include <cmath>
#include <limits>

#include "sim/kernels/attention_kernels.h"

namespace kvsim {

void ApproximateAttention::begin(int step) {
  step_ = step;
  first_ = first_visible(unit_, step);
  pages_.assign(static_cast<std::size_t>(step / page_), 0);
  logits_.resize(static_cast<std::size_t>(step + 1 - first_));
}

void ApproximateAttention::add(int head) {
  if (unit_.logit_softcap) {
    const float cap = *unit_.logit_softcap;
    for (float& logit : logits_) logit = cap * std::tanh(logit / cap);
  }
  if (unit_.selected) {
    for (int token = first_; token <= step_; ++token) {
      if (is_visible(unit_, step_, token)) continue;
      logits_[token - first_] = -std::numeric_limits<float>::infinity();
    }
  }
  weights_.resize(logits_.size());
  float offset = unit_.sink(head);
  const double sum =
      exponentials(logits_, weights_.data(), offset) + sink_weight(unit_, head, offset);
  if (sum <= 0) return;
  const int end = static_cast<int>(pages_.size()) * page_;
  for (int token = first_; token < end; ++token) {
    pages_[token / page_] += weights_[token - first_] / sum;
  }
}

}  // namespace kvsim
