#pragma once

#include "gpu/kernels/attended.h"

namespace kvsim::gpu {

/// Counts the visible weights of a row below the batch's small_threshold times the largest of them,
/// which is 1 unless a sink has more.
/// CPU counterpart: analysis/measurements/sparsity.cpp.
template <class Block>
KVSIM_DEVICE void count_small(Block& block, const Batch& batch, int index) {
  const int unit = index / batch.rows();
  const int row = index % batch.rows();
  const int step = batch.first_step + row / batch.shape.group_size;
  const int begin = batch.first_visible(unit, step);
  const float* weight = batch.weight + batch.block_row(unit, row) * batch.shape.num_tokens;
  const float largest = block.reduce(
      step + 1, 0.0F, [&](int token) { return token >= begin ? weight[token] : 0.0F; }, Larger());
  const double limit = batch.small_threshold * largest;
  const int count = block.reduce(
      step + 1, 0,
      [&](int token) { return static_cast<int>(token >= begin && weight[token] < limit); }, Sum());
  block.once([&] { batch.num_small[batch.text_row(unit, row)] = count; });
}

/// Adds the steps of the block at which each token is pivotal, for one query head of a unit.
/// CPU counterpart: Persistence in sim/attention/persistence.h.
template <class Block>
KVSIM_DEVICE void note_pivotal(Block& block, const Batch& batch, int index) {
  const int num_heads = batch.shape.group_size;
  const int unit = index / num_heads;
  PivotalSteps* all = batch.pivotal_steps + batch.tokens_of(index);
  block.each(batch.width(), [&](int token) {
    PivotalSteps steps = token < batch.first_step ? all[token] : PivotalSteps{};
    for (int i = 0; i < batch.num_steps; ++i) {
      const int step = batch.first_step + i;
      if (token > step || token < batch.first_visible(unit, step)) continue;
      const std::size_t row = batch.block_row(unit, i * num_heads + index % num_heads);
      const float weight = batch.weight[row * batch.shape.num_tokens + token];
      const PivotalThreshold& threshold = batch.pivotal_threshold;
      steps.add(step, threshold.is_exceeded(weight, batch.weight_sum[row], step));
    }
    all[token] = steps;
  });
}

/// Index of the first entry of row `step` in a packed lower triangle (row t has t + 1 entries).
constexpr std::size_t triangle_row(int step) {
  return static_cast<std::size_t>(step) * (static_cast<std::size_t>(step) + 1) / 2;
}

/// Averages the attention of one step of a unit over its query heads.
/// CPU counterpart: FutureAttention in sim/attention/future_attention.h.
template <class Block>
KVSIM_DEVICE void average_heads(Block& block, const Batch& batch, int index) {
  const int unit = index / batch.num_steps;
  const int step_in_block = index % batch.num_steps;
  const int num_heads = batch.shape.group_size;
  const int step = batch.first_step + step_in_block;
  float* mean =
      batch.mean_attention + unit * triangle_row(batch.shape.num_tokens) + triangle_row(step);
  block.each(step + 1, [&](int token) {
    float sum = 0;
    for (int head = 0; head < num_heads; ++head) {
      const std::size_t row = batch.block_row(unit, step_in_block * num_heads + head);
      const float weight = batch.weight[row * batch.shape.num_tokens + token];
      sum += static_cast<float>(weight / (batch.weight_sum[row] * num_heads));
    }
    mean[token] = sum;
  });
}

/// For a tile of tokens j and all steps t: the sum of the mean attention a[s,j] over the measured
/// steps s > t. CPU counterpart: RemainingAttention in oracle/remaining_attention.h.
template <class Block>
KVSIM_DEVICE void sum_remaining(Block& block, const Batch& batch, int index) {
  const int num_tokens = batch.shape.num_tokens;
  const std::size_t first = index / token_tiles(num_tokens) * triangle_row(num_tokens);
  const int first_token = index % token_tiles(num_tokens) * kTokenTile;
  block.each(min_of(kTokenTile, num_tokens - first_token), [&](int i) {
    const int token = first_token + i;
    double later = 0;
    for (int step = num_tokens - 1; step >= token; --step) {
      const std::size_t place = first + triangle_row(step) + token;
      batch.remaining[place] = static_cast<float>(later);
      if (step >= batch.first_measured) later += batch.mean_attention[place];
    }
  });
}

}  // namespace kvsim::gpu
