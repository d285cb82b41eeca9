#pragma once

#include "gpu/kernels/batch.h"

namespace kvsim::gpu {

/// Gives a replay the cache of the one that score_prompts() took through the prompt for it, up to
/// the block in which the prompt ends: until then nothing has been evicted, and what the rule knows
/// of the tokens does not depend on the budget.
template <class Block>
KVSIM_DEVICE void share_prompts(Block& block, const Batch& batch, int replay) {
  const ReplayTask& task = batch.replays[replay];
  block.each(batch.shape.num_tokens, [&](int token) {
    batch.evicted_after[batch.tokens_of(replay) + token] = batch.shape.num_tokens;
  });
  if (task.prompt_of == replay) return;
  const std::size_t to = static_cast<std::size_t>(replay) * batch.capacity;
  const std::size_t from = static_cast<std::size_t>(task.prompt_of) * batch.capacity;
  const int num_held = batch.num_held[task.prompt_of];
  block.each(num_held, [&](int slot) {
    batch.held_token[to + slot] = batch.held_token[from + slot];
    batch.held_score[to + slot] = batch.held_score[from + slot];
  });
  const std::byte* known = batch.remembered + batch.replays[task.prompt_of].remembered;
  const auto* known_words = reinterpret_cast<const std::uint64_t*>(known);
  auto* words = reinterpret_cast<std::uint64_t*>(batch.remembered + task.remembered);
  block.each(static_cast<int>(task.remembered_bytes / sizeof(std::uint64_t)),
             [&](int i) { words[i] = known_words[i]; });
  block.once([&] {
    batch.num_held[replay] = num_held;
    batch.num_ties[replay] = 0;
    batch.peak_held[replay] = 0;
  });
}

}  // namespace kvsim::gpu
