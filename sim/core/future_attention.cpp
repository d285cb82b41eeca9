#include "sim/core/future_attention.h"

#include <algorithm>

namespace kvsim {

FutureAttention::FutureAttention(const Unit& unit, Mode mode, const Backend& backend)
    : num_tokens_(unit.num_tokens()),
      first_measured_(mode == Mode::prefill ? unit.prompt_length : 0),
      attention_(offset(num_tokens_)) {
  const auto pass = backend.attend(unit);
  const int block_steps = steps_per_block(num_tokens_, unit.group_size());
  AttentionBlock block;
  for (int first = 0; first < num_tokens_; first += block_steps) {
    pass->compute(first, std::min(block_steps, num_tokens_ - first), block);
    for (int row = 0; row < block.num_steps; ++row) {
      float* mean = attention_.data() + offset(first + row);
      for (const HeadAttention& head : block.heads) {
        const double sum = head.weight_sum[row] * unit.group_size();
        const float* weight = head.weight.row(row).data();
        for (int token = 0; token <= first + row; ++token) {
          mean[token] += static_cast<float>(weight[token] / sum);
        }
      }
    }
  }
}

FutureAttention::FutureAttention(const std::vector<std::vector<float>>& rows, int first_measured)
    : num_tokens_(static_cast<int>(rows.size())), first_measured_(first_measured) {
  for (const std::vector<float>& row : rows) {
    attention_.insert(attention_.end(), row.begin(), row.end());
  }
}

}  // namespace kvsim
