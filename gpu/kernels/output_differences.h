#pragma once

#include <cmath>

#include "gpu/kernels/attended.h"

namespace kvsim::gpu {

/// The output difference |o - o'| of all replays of a unit, at one row of the block.
/// CPU counterpart: RetainedOutputs in sim/outputs/retained_outputs.h.
template <class Block>
class OutputDifferences {
 public:
  KVSIM_DEVICE OutputDifferences(Block& block, const Batch& batch, int unit, int row)
      : block_(block),
        batch_(batch),
        unit_(unit),
        row_(row),
        num_dims_(batch.shape.value_dim),
        step_(batch.first_step + row / batch.shape.group_size),
        full_weight_(batch.weight_sum[batch.block_row(unit, row)]),
        full_sum_(batch.full_sum + batch.block_row(unit, row) * num_dims_) {}

  KVSIM_DEVICE void run() {
    const double norm = length([&](int d) { return output(d); });
    block_.once([&] { batch_.output_norm[batch_.text_row(unit_, row_)] = norm; });
    const UnitTask task = batch_.units[unit_];
    for (int place = 0; place < task.num_replays; ++place) {
      const int replay = batch_.order[task.first_replay + place];
      add_parent(replay);
      const double difference = difference_of(replay);
      block_.once([&] { batch_.difference[batch_.text_row(replay, row_)] = difference; });
    }
  }

 private:
  KVSIM_DEVICE double output(int d) const { return full_sum_[d] / full_weight_; }

  template <class Vector>
  KVSIM_DEVICE double length(Vector vector) {
    return std::sqrt(block_.reduce(
        num_dims_, 0.0,
        [&](int d) {
          const double x = vector(d);
          return x * x;
        },
        Sum()));
  }

  KVSIM_DEVICE double* sums(double* of_replays, int replay) const {
    return of_replays + batch_.block_row(replay, row_) * num_dims_;
  }

  // Parents come first, so that a parent's sum is already the one over all its missing tokens.
  KVSIM_DEVICE void add_parent(int replay) {
    const int parent = batch_.parent[replay];
    if (parent == kFullCache) return;
    const double* from = parent == kEmptyCache ? full_sum_ : sums(batch_.term_sum, parent);
    double* to = sums(batch_.term_sum, replay);
    block_.each(num_dims_, [&](int d) { to[d] += from[d]; });
  }

  KVSIM_DEVICE double difference_of(int replay) {
    switch (batch_.loss[batch_.block_row(replay, row_)]) {
      case Loss::nothing:
        return 0;
      case Loss::tokens:
        return difference_by_missing(replay);
      case Loss::nearly_all:
        return difference_by_rescaled_weights(replay);
    }
    return 0;
  }

  // With N and W the sums of weighted values and of weights over the kept or the missing tokens,
  // o' = N_kept / W_kept, and so o - o' = (N_missing - W_missing o) / W_kept.
  KVSIM_DEVICE double difference_by_missing(int replay) {
    const double kept = batch_.kept[batch_.block_row(replay, row_)];
    const double* before = sums(batch_.term_sum, replay);
    const double* during = sums(batch_.evicted_sum, replay);
    return length(
               [&](int d) { return before[d] + during[d] - (full_weight_ - kept) * output(d); }) /
           kept;
  }

  KVSIM_DEVICE double difference_by_rescaled_weights(int replay) {
    const int begin = batch_.first_visible(unit_, step_);
    const double kept = batch_.kept[batch_.block_row(replay, row_)];
    const float offset = batch_.offset[batch_.block_row(replay, row_)];
    const float* logit = batch_.logit + batch_.block_row(unit_, row_) * batch_.shape.num_tokens;
    const float* value = batch_.value + batch_.tokens_of(unit_) * num_dims_;
    const std::int32_t* evicted_after = batch_.evicted_after + batch_.tokens_of(replay);
    return length([&](int d) {
      double sum = 0;
      for (int token = begin; token <= step_; ++token) {
        if (evicted_after[token] < step_) continue;
        const double weight = std::exp(logit[token] - offset);
        sum += weight * value[static_cast<std::size_t>(token) * num_dims_ + d];
      }
      return output(d) - sum / kept;
    });
  }

  Block& block_;
  const Batch& batch_;
  int unit_;
  int row_;
  int num_dims_;
  int step_;
  double full_weight_;
  const double* full_sum_;
};

template <class Block>
KVSIM_DEVICE void output_differences(Block& block, const Batch& batch, int index) {
  OutputDifferences<Block>(block, batch, index / batch.rows(), index % batch.rows()).run();
}

}  // namespace kvsim::gpu
