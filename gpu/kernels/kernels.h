#pragma once

#include "gpu/kernels/attention_summaries.h"
#include "gpu/kernels/cache_tree.h"
#include "gpu/kernels/output_differences.h"
#include "gpu/kernels/replay_steps.h"
#include "gpu/kernels/replay_totals.h"
#include "gpu/kernels/score_prompts.h"
#include "gpu/kernels/select_tokens.h"
#include "gpu/kernels/share_prompts.h"
#include "gpu/kernels/sum_values.h"
#include "gpu/kernels/weigh_row.h"

namespace kvsim::gpu {

/// Each kernel and its number of thread blocks. First the kernels of a replay, in the order in
/// which they run on every block of steps, and total_replay, which runs once after the last block;
/// then those of summaries, each of which runs after weigh_row, except sum_remaining, which runs
/// once after the last block.
#define KVSIM_KERNELS(KERNEL)                                                              \
  KERNEL(weigh_row, batch.rows() * batch.num_units)                                        \
  KERNEL(score_prompts, batch.group.count* token_tiles(batch.width()))                     \
  KERNEL(share_prompts, batch.num_replays)                                                 \
  KERNEL(replay_steps, batch.group.count)                                                  \
  KERNEL(link_caches, batch.num_units)                                                     \
  KERNEL(list_terms, batch.num_replays)                                                    \
  KERNEL(sum_values, num_sums(batch) * row_tiles(batch) * dim_tiles(batch))                \
  KERNEL(output_differences, batch.rows() * batch.num_units)                               \
  KERNEL(select_tokens, batch.num_selecting > 0 ? batch.num_replays * batch.num_steps : 0) \
  KERNEL(total_replay, batch.num_replays)                                                  \
  KERNEL(count_small, batch.rows() * batch.num_units)                                      \
  KERNEL(note_pivotal, (batch.num_units * batch.shape.group_size))                         \
  KERNEL(average_heads, (batch.num_units * batch.num_steps))                               \
  KERNEL(sum_remaining, token_tiles(batch.shape.num_tokens) * batch.num_units)

enum class Kernel {
#define KERNEL(name, thread_blocks) name,
  KVSIM_KERNELS(KERNEL)
#undef KERNEL
};

inline const char* name_of(Kernel kernel) {
  switch (kernel) {
#define KERNEL(name, thread_blocks) \
  case Kernel::name:                \
    return #name;
    KVSIM_KERNELS(KERNEL)
#undef KERNEL
  }
  return "";
}

inline int num_thread_blocks(Kernel kernel, const Batch& batch) {
  switch (kernel) {
#define KERNEL(name, thread_blocks) \
  case Kernel::name:                \
    return thread_blocks;
    KVSIM_KERNELS(KERNEL)
#undef KERNEL
  }
  return 0;
}

/// Threads of a thread block: one warp for small caches, whose steps would otherwise be all
/// waiting.
inline int num_threads(Kernel kernel, const Batch& batch) {
  const bool is_small = kernel == Kernel::replay_steps && batch.group.slots <= kSmallCache;
  return is_small ? kWarpThreads : kMostThreads;
}

/// Bytes of on-chip memory that speed up a thread block; it works without them too.
inline std::size_t on_chip_wanted(Kernel kernel, const Batch& batch) {
  if (kernel == Kernel::replay_steps) return kBytesPerSlot * batch.group.slots;
  return kernel == Kernel::select_tokens ? sizeof(std::int32_t) * batch.width() : 0;
}

/// Runs thread block `index` of a kernel.
template <Kernel kKernel, class Block>
KVSIM_DEVICE void run_thread_block(Block& block, const Batch& batch, int index) {
#define KERNEL(name, thread_blocks) \
  if constexpr (kKernel == Kernel::name) name(block, batch, index);
  KVSIM_KERNELS(KERNEL)
#undef KERNEL
}

/// Calls launch.operator()<kKernel>() for `kernel`.
template <class Launch>
void dispatch(Kernel kernel, Launch launch) {
  switch (kernel) {
#define KERNEL(name, thread_blocks) \
  case Kernel::name:                \
    return launch.template operator()<Kernel::name>();
    KVSIM_KERNELS(KERNEL)
#undef KERNEL
  }
}

}  // namespace kvsim::gpu
