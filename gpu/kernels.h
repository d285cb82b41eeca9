#pragma once

#include "gpu/attention_summaries.h"
#include "gpu/cache_tree.h"
#include "gpu/output_differences.h"
#include "gpu/replay_steps.h"
#include "gpu/select_tokens.h"
#include "gpu/sum_values.h"
#include "gpu/weigh_row.h"

namespace kvsim::gpu {

/// Each kernel and the thread blocks that do a batch: those of replays, in their order for every
/// block of steps, then those of summaries, which weigh_row goes before; sum_remaining runs once,
/// after the last block.
#define KVSIM_KERNELS(KERNEL)                                                              \
  KERNEL(weigh_row, batch.rows() * batch.num_units)                                        \
  KERNEL(replay_steps, batch.num_replays)                                                  \
  KERNEL(link_caches, batch.num_units)                                                     \
  KERNEL(list_terms, batch.num_replays)                                                    \
  KERNEL(sum_values, num_sums(batch) * row_tiles(batch) * dim_tiles(batch))                \
  KERNEL(output_differences, batch.rows() * batch.num_units)                               \
  KERNEL(select_tokens, batch.num_selecting > 0 ? batch.num_replays * batch.num_steps : 0) \
  KERNEL(count_small, batch.rows() * batch.num_units)                                      \
  KERNEL(note_pivotal, (batch.num_units * batch.shape.group_size))                         \
  KERNEL(average_heads, (batch.num_units * batch.num_steps))                               \
  KERNEL(sum_remaining, token_tiles(batch) * batch.num_units)

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

/// The memory that a thread block works faster with if its processor has so much.
inline std::size_t on_chip_wanted(Kernel kernel, const Batch& batch) {
  if (kernel == Kernel::replay_steps) return kBytesPerSlot * batch.capacity;
  return kernel == Kernel::select_tokens ? sizeof(std::int32_t) * batch.width() : 0;
}

/// The part of one thread block.
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
