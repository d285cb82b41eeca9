#include "sim/attention/future_attention.h"

#include <algorithm>

#include "sim/attention/attention_blocks.h"
#include "sim/attention/device_summaries.h"

namespace kvsim {

void group_mean(const AttentionBlock& block, int row, std::span<float> mean) {
  std::fill(mean.begin(), mean.end(), 0.0F);
  for (const HeadAttention& head : block.heads) {
    const double sum = head.weight_sum[row] * static_cast<double>(block.heads.size());
    const float* weight = head.weight.row(row).data();
    for (std::size_t token = 0; token < mean.size(); ++token) {
      mean[token] += static_cast<float>(weight[token] / sum);
    }
  }
}

FutureAttention::FutureAttention(const Unit& unit, const EvictionSteps& steps,
                                 const Backend& backend)
    : StepRows(steps) {
  if (const DeviceSummaries* device = backend.summaries()) {
    FutureSums sums = device->future_sums(unit, first_measured());
    values_ = std::move(sums.attention);
    remaining_ = std::move(sums.remaining);
    return;
  }
  for_each_block(unit, num_tokens(), backend, [&](const AttentionBlock& block) {
    for (int row = 0; row < block.num_steps; ++row) {
      group_mean(block, row, this->row(block.first_step + row));
    }
  });
}

FutureAttention::FutureAttention(const std::vector<std::vector<float>>& rows, int prompt_length,
                                 const Protocol& protocol)
    : StepRows(EvictionSteps(static_cast<int>(rows.size()), prompt_length, protocol)) {
  for (int step = 0; step < num_tokens(); ++step) {
    std::copy(rows[step].begin(), rows[step].end(), row(step).begin());
  }
}

EvictionSteps eviction_steps(const Unit& unit, const Protocol& protocol) {
  return EvictionSteps(unit.num_tokens(), unit.prompt_length, protocol);
}

}  // namespace kvsim
