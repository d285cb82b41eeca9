#pragma once

#include "gpu/attention_summaries.h"
#include "gpu/cache_tree.h"
#include "gpu/output_differences.h"
#include "gpu/replay_steps.h"
#include "gpu/select_tokens.h"
#include "gpu/sum_values.h"
#include "gpu/weigh_row.h"

namespace kvsim::gpu {

/// What a device runs over a batch: for replays the first ones, in this order for every block of
/// steps; for a summary weigh_row and one of the last.
enum class Kernel {
  weigh_row,           ///< a thread block per row of a unit
  replay_steps,        ///< per replay
  link_caches,         ///< per unit
  list_terms,          ///< per replay
  sum_values,          ///< per tile of a sum
  output_differences,  ///< per row of a unit
  select_tokens,       ///< per step of a replay, if any selects
  count_small,         ///< per row of a unit
  note_pivotal,        ///< per query head of a unit
  average_heads,       ///< per step of a unit
  sum_remaining,       ///< after the last block; per tile of a unit's tokens
};

inline const char* name_of(Kernel kernel) {
  switch (kernel) {
    case Kernel::weigh_row:
      return "weigh_row";
    case Kernel::replay_steps:
      return "replay_steps";
    case Kernel::link_caches:
      return "link_caches";
    case Kernel::list_terms:
      return "list_terms";
    case Kernel::sum_values:
      return "sum_values";
    case Kernel::output_differences:
      return "output_differences";
    case Kernel::select_tokens:
      return "select_tokens";
    case Kernel::count_small:
      return "count_small";
    case Kernel::note_pivotal:
      return "note_pivotal";
    case Kernel::average_heads:
      return "average_heads";
    case Kernel::sum_remaining:
      return "sum_remaining";
  }
  return "";
}

inline int num_thread_blocks(Kernel kernel, const Batch& batch) {
  switch (kernel) {
    case Kernel::weigh_row:
    case Kernel::output_differences:
    case Kernel::count_small:
      return batch.num_units * batch.rows();
    case Kernel::replay_steps:
    case Kernel::list_terms:
      return batch.num_replays;
    case Kernel::link_caches:
      return batch.num_units;
    case Kernel::sum_values:
      return (2 * batch.num_replays + batch.num_units) * row_tiles(batch) * dim_tiles(batch);
    case Kernel::select_tokens:
      return batch.num_selecting > 0 ? batch.num_replays * batch.num_steps : 0;
    case Kernel::note_pivotal:
      return batch.num_units * batch.shape.group_size;
    case Kernel::average_heads:
      return batch.num_units * batch.num_steps;
    case Kernel::sum_remaining:
      return batch.num_units * token_tiles(batch);
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
  if constexpr (kKernel == Kernel::weigh_row) weigh_row(block, batch, index);
  if constexpr (kKernel == Kernel::replay_steps) replay_steps(block, batch, index);
  if constexpr (kKernel == Kernel::link_caches) link_caches(block, batch, index);
  if constexpr (kKernel == Kernel::list_terms) list_terms(block, batch, index);
  if constexpr (kKernel == Kernel::sum_values) sum_values(block, batch, index);
  if constexpr (kKernel == Kernel::output_differences) output_differences(block, batch, index);
  if constexpr (kKernel == Kernel::select_tokens) select_tokens(block, batch, index);
  if constexpr (kKernel == Kernel::count_small) count_small(block, batch, index);
  if constexpr (kKernel == Kernel::note_pivotal) note_pivotal(block, batch, index);
  if constexpr (kKernel == Kernel::average_heads) average_heads(block, batch, index);
  if constexpr (kKernel == Kernel::sum_remaining) sum_remaining(block, batch, index);
}

/// Calls launch.operator()<kKernel>() for `kernel`.
template <class Launch>
void dispatch(Kernel kernel, Launch launch) {
  switch (kernel) {
    case Kernel::weigh_row:
      return launch.template operator()<Kernel::weigh_row>();
    case Kernel::replay_steps:
      return launch.template operator()<Kernel::replay_steps>();
    case Kernel::link_caches:
      return launch.template operator()<Kernel::link_caches>();
    case Kernel::list_terms:
      return launch.template operator()<Kernel::list_terms>();
    case Kernel::sum_values:
      return launch.template operator()<Kernel::sum_values>();
    case Kernel::output_differences:
      return launch.template operator()<Kernel::output_differences>();
    case Kernel::select_tokens:
      return launch.template operator()<Kernel::select_tokens>();
    case Kernel::count_small:
      return launch.template operator()<Kernel::count_small>();
    case Kernel::note_pivotal:
      return launch.template operator()<Kernel::note_pivotal>();
    case Kernel::average_heads:
      return launch.template operator()<Kernel::average_heads>();
    case Kernel::sum_remaining:
      return launch.template operator()<Kernel::sum_remaining>();
  }
}

}  // namespace kvsim::gpu
