#pragma once

#include "gpu/kernels/remembered_scores.h"
#include "sim/kernels/score_kernels.h"

namespace kvsim::gpu {

/// Takes a tile of tokens of one replay through a block of steps that ends before the prompt does.
/// Until then nothing is evicted, so that a token's score follows from its own attention alone: its
/// thread goes through the steps without waiting for another. The caches of replay_steps() are the
/// same up to rounding.
template <class Block>
KVSIM_DEVICE void score_prompts(Block& block, const Batch& batch, int index) {
  const int end = batch.width();
  const int tile = index % token_tiles(end);
  const int replay = batch.replay_order[batch.group.first + index / token_tiles(end)];
  const ReplayTask& task = batch.replays[replay];
  if (tile == 0) {
    block.once([&] {
      batch.num_held[replay] = task.selects ? 0 : end;
      batch.num_ties[replay] = 0;
      batch.peak_held[replay] = 0;
    });
  }
  if (task.selects) return;
  RememberedScores<Block> remembered(block, batch, task);
  const bool reads_earlier = task.rule.reads_score() || task.rule.needs_history();
  block.each(min_of(kTokenTile, end - tile * kTokenTile), [&](int i) {
    const int token = tile * kTokenTile + i;
    const std::size_t slot = static_cast<std::size_t>(replay) * batch.capacity + token;
    const bool is_new = token >= batch.first_step;
    double score = is_new ? arrival_score_of(batch, task, token) : batch.held_score[slot];
    const int first = !reads_earlier ? end - 1 : is_new ? token : batch.first_step;
    for (int step = first; step < end; ++step) {
      const int row = (step - batch.first_step) * batch.shape.group_size;
      const float attention =
          task.rule.reads_attention() ? full_attention(batch, task.unit, row, token) : 0;
      if (task.rule.needs_history()) {
        remembered.add(step, token, attention, score);
      } else {
        const ScoredStep scored{step, static_cast<std::size_t>(step + 1)};
        score = next_score(task.rule, scored, token, score, attention);
      }
    }
    batch.held_token[slot] = token;
    batch.held_score[slot] = score;
  });
}

}  // namespace kvsim::gpu
