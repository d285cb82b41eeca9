#include "oracle/labels/attention_labels.h"

#include <algorithm>

namespace kvsim {

AttentionLabeller::AttentionLabeller(const EvictionSteps& steps, int block)
    : steps_(steps), block_(block) {
  const auto n = static_cast<std::size_t>(steps.num_tokens());
  labels_.future_attention.resize(n);
  labels_.future_attention_blocks.resize(static_cast<std::size_t>(num_blocks()) * n);
  labels_.next_access.assign(n, steps.num_tokens());
}

int AttentionLabeller::num_blocks() const {
  const int measured = steps_.num_tokens() - steps_.first_measured();
  return measured / block_ + (measured % block_ > 0 ? 1 : 0);
}

int AttentionLabeller::steps_in_block(int index) const {
  const int first = steps_.first_measured() + index * block_;
  return std::min(block_, steps_.num_tokens() - first);
}

void AttentionLabeller::add(int step, std::span<const float> attention) {
  if (step < steps_.first_measured()) return;
  const int index = (step - steps_.first_measured()) / block_;
  double* in_block = labels_.future_attention_blocks.data() +
                     static_cast<std::size_t>(index) * labels_.future_attention.size();
  const float even_share = 1 / static_cast<float>(step + 1);
  for (int token = 0; token < step; ++token) {
    labels_.future_attention[token] += attention[token];
    in_block[token] += attention[token];
    std::int32_t& next = labels_.next_access[token];
    if (attention[token] > even_share) next = std::min(next, step);
  }
}

AttentionLabels AttentionLabeller::finish() && {
  const std::size_t n = labels_.future_attention.size();
  for (int index = 0; index < num_blocks(); ++index) {
    double* in_block = labels_.future_attention_blocks.data() + static_cast<std::size_t>(index) * n;
    for (std::size_t token = 0; token < n; ++token) in_block[token] /= steps_in_block(index);
  }
  return std::move(labels_);
}

}  // namespace kvsim
