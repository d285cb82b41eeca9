#include "sim/attention/future_attention.h"

#include "sim/attention/attention_blocks.h"
#include "sim/attention/device_summaries.h"

namespace kvsim {

FutureAttention::FutureAttention(const Unit& unit, Mode mode, const Backend& backend,
                                 int eviction_interval)
    : num_tokens_(unit.num_tokens()),
      first_measured_(kvsim::first_measured(mode, unit.prompt_length)),
      eviction_interval_(eviction_interval),
      attention_(offset(num_tokens_)) {
  if (const DeviceSummaries* device = backend.summaries()) {
    FutureSums sums = device->future_sums(unit, first_measured_);
    attention_ = std::move(sums.attention);
    remaining_ = std::move(sums.remaining);
    return;
  }
  for_each_block(unit, num_tokens_, backend, [&](const AttentionBlock& block) {
    for (int row = 0; row < block.num_steps; ++row) {
      float* mean = attention_.data() + offset(block.first_step + row);
      for (const HeadAttention& head : block.heads) {
        const double sum = head.weight_sum[row] * unit.group_size();
        const float* weight = head.weight.row(row).data();
        for (int token = 0; token <= block.first_step + row; ++token) {
          mean[token] += static_cast<float>(weight[token] / sum);
        }
      }
    }
  });
}

FutureAttention::FutureAttention(const std::vector<std::vector<float>>& rows, int first_measured,
                                 int eviction_interval)
    : num_tokens_(static_cast<int>(rows.size())),
      first_measured_(first_measured),
      eviction_interval_(eviction_interval) {
  for (const std::vector<float>& row : rows) {
    attention_.insert(attention_.end(), row.begin(), row.end());
  }
}

std::vector<int> FutureAttention::num_evictions(int budget) const {
  std::vector<int> evictions(num_tokens_, 0);
  int held = first_eviction();
  for (int step = first_eviction(); step < num_tokens_; ++step) {
    ++held;
    const bool is_prompt_end = step + 1 == first_measured_;
    if (held <= most_held(budget, eviction_interval_, is_prompt_end)) continue;
    evictions[step] = held - budget;
    held = budget;
  }
  return evictions;
}

}  // namespace kvsim
