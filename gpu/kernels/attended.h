#pragma once

#include <cmath>

#include "gpu/kernels/batch.h"
#include "sim/kernels/score_kernels.h"

namespace kvsim::gpu {

/// Sums over the tokens that a step attends to. Weights are those of the full attention.
struct Attended {
  double weight_sum;  ///< at last with the sink's, which every step attends to
  int num_pivotal;
  int num_visible;
};

struct Sum {
  template <class T>
  KVSIM_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
  KVSIM_DEVICE Attended operator()(const Attended& a, const Attended& b) const {
    return {a.weight_sum + b.weight_sum, a.num_pivotal + b.num_pivotal,
            a.num_visible + b.num_visible};
  }
};

struct Larger {
  KVSIM_DEVICE float operator()(float a, float b) const { return a < b ? b : a; }
};

/// The weight of a sink among weights exp(logit - offset); 0 without one.
KVSIM_DEVICE inline double weight_of_sink(float logit, float offset) {
  return std::exp(static_cast<double>(logit) - static_cast<double>(offset));
}

/// Writes the attention loss and the misses of one row of a replay. Called by one thread.
KVSIM_DEVICE inline void record_loss(const Batch& batch, int replay, int row,
                                     const Attended& attended, bool is_missing) {
  const int unit = batch.replays[replay].unit;
  const double full_weight = batch.weight_sum[batch.block_row(unit, row)];
  const double share = (full_weight - attended.weight_sum) / full_weight;
  const double lost = share < 0 ? 0 : share > 1 ? 1 : share;
  const int accesses = batch.num_pivotal[batch.text_row(unit, row)];
  const std::size_t in_text = batch.text_row(replay, row);
  batch.attention_loss[in_text] = is_missing ? lost : 0;
  batch.num_misses[in_text] = is_missing ? accesses - attended.num_pivotal : 0;
}

/// The attention to a token where nothing is missing, mean over the query heads. `first_row` is the
/// row of the first head.
KVSIM_DEVICE inline float full_attention(const Batch& batch, int unit, int first_row, int token) {
  float attention = 0;
  for (int head = 0; head < batch.shape.group_size; ++head) {
    const std::size_t row = batch.block_row(unit, first_row + head);
    const float scale = attention_scale(batch.weight_sum[row], batch.shape.group_size);
    attention += batch.weight[row * batch.shape.num_tokens + token] * scale;
  }
  return attention;
}

/// The score of a token that has just arrived.
KVSIM_DEVICE inline double arrival_score_of(const Batch& batch, const ReplayTask& task, int token) {
  if (task.rule.kind != ScoreRule::Kind::newest) return 0;
  return batch.arrival_score[batch.tokens_of(task.arrival_row) + token];
}

KVSIM_DEVICE inline int min_of(int a, int b) { return a < b ? a : b; }

}  // namespace kvsim::gpu
