#pragma once

#include <cmath>

#include "gpu/batch.h"

namespace kvsim::gpu {

/// How far the outputs of all replays of a unit are from those of its full cache, at one row of the
/// block. With N, W the sums of weighted values and of weights, over what is kept and what is
/// missing, o' = N_kept / W_kept, and so o - o' = (N_missing - W_missing o) / W_kept.
/// CPU counterpart: RetainedOutputs in sim/core.
template <class Block>
KVSIM_DEVICE void output_differences(Block& block, const Batch& batch, int index) {
  const int unit = index / batch.rows();
  const int row = index % batch.rows();
  const int num_dims = batch.shape.value_dim;
  const int step = batch.first_step + row / batch.shape.group_size;
  const std::size_t of_unit = batch.block_row(unit, row);
  const double full_weight = batch.weight_sum[of_unit];
  const double* full_sum = batch.full_sum + of_unit * num_dims;
  const auto add = [](double a, double b) { return a + b; };
  const double square = block.reduce(
      num_dims, 0.0,
      [&](int d) {
        const double output = full_sum[d] / full_weight;
        return output * output;
      },
      add);
  block.once([&] { batch.output_norm[batch.text_row(unit, row)] = std::sqrt(square); });

  const UnitTask task = batch.units[unit];
  for (int place = 0; place < task.num_replays; ++place) {
    const int replay = batch.order[task.first_replay + place];
    const int parent = batch.parent[replay];
    const std::size_t of_replay = batch.block_row(replay, row);
    double* lacking = batch.term_sum + of_replay * num_dims;
    if (parent != kLacksNothing) {
      const double* from = parent == kLacksEverything
                               ? full_sum
                               : batch.term_sum + batch.block_row(parent, row) * num_dims;
      block.each(num_dims, [&](int d) { lacking[d] += from[d]; });
    }
    const Loss loss = batch.loss[of_replay];
    const double kept = batch.kept[of_replay];
    double difference = 0;
    if (loss == Loss::tokens) {
      const double* late = batch.late_sum + of_replay * num_dims;
      difference = std::sqrt(block.reduce(
                       num_dims, 0.0,
                       [&](int d) {
                         const double output = full_sum[d] / full_weight;
                         const double by = lacking[d] + late[d] - (full_weight - kept) * output;
                         return by * by;
                       },
                       add)) /
                   kept;
    } else if (loss == Loss::nearly_all) {
      const int begin = batch.first_visible(unit, step);
      const float* logit = batch.logit + of_unit * batch.shape.num_tokens;
      const float* value = batch.value + batch.tokens_of(unit) * num_dims;
      const std::int32_t* evicted_after = batch.evicted_after + batch.tokens_of(replay);
      const float offset = batch.offset[of_replay];
      difference = std::sqrt(block.reduce(
          num_dims, 0.0,
          [&](int d) {
            double sum = 0;
            for (int token = begin; token <= step; ++token) {
              if (evicted_after[token] < step) continue;
              const double weight = std::exp(logit[token] - offset);
              sum += weight * value[static_cast<std::size_t>(token) * num_dims + d];
            }
            const double by = full_sum[d] / full_weight - sum / kept;
            return by * by;
          },
          add));
    }
    block.once([&] { batch.difference[batch.text_row(replay, row)] = difference; });
  }
}

}  // namespace kvsim::gpu
