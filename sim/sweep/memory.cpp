#include "sim/sweep/memory.h"

#include <unistd.h>

#include <fstream>

#include "sim/kernels/attention_kernels.h"
#include "sim/kernels/value_kernels.h"

namespace kvsim {
namespace {

constexpr std::size_t kNumber = sizeof(float);

/// Keys in panels, and per token the norm of the longest value so far.
std::size_t pass_memory(const ReplayShape& shape) {
  return shape.num_tokens * (shape.head_dim * kNumber + sizeof(double));
}

/// Logits, weights and their transpose, a bit per pivotal token.
std::size_t block_memory(const ReplayShape& shape) {
  const std::size_t per_step = shape.num_tokens * 3 * kNumber + shape.num_tokens / 8;
  return shape.group_size * kBlockSteps * (per_step + shape.value_dim * sizeof(double));
}

/// The errors and token sets (bits) of each configuration, and one cache's weights by slot.
std::size_t measuring_memory(const ReplayShape& shape) {
  const std::size_t errors =
      shape.group_size * (shape.num_tokens / shape.error_stride + 1) * sizeof(double);
  const std::size_t sets = 3 * shape.num_tokens / 8;
  const std::size_t weights = shape.group_size * kBlockSteps * kNumber;
  return shape.configurations * (errors + sets) + shape.gathered * weights;
}

/// Values, and the terms of the sums from which the outputs of all caches follow.
std::size_t outputs_memory(const ReplayShape& shape) {
  const std::size_t values = shape.num_tokens * padded_value_dim(shape.value_dim) * kNumber;
  const std::size_t copies = shape.needs_outputs ? 2 : 1;
  return copies * values + (shape.num_tokens + 2 * shape.held) * sizeof(Term);
}

/// Tokens, scores, attention and slots; without a reference also a copy of the keys.
std::size_t cache_memory(const ReplayShape& shape) {
  const std::size_t per_slot = 2 * sizeof(std::int32_t) + sizeof(double) + kNumber;
  const std::size_t resident = shape.head_dim * kNumber + 3 * sizeof(std::int32_t) + 2 * kNumber;
  return shape.held * (shape.has_reference ? 2 * per_slot : per_slot + resident);
}

}  // namespace

std::size_t replay_memory(const ReplayShape& shape) {
  const std::size_t n = shape.num_tokens;
  const std::size_t values = shape.reads_values ? shape.value_dim : 0;
  const std::size_t recorded =
      n * ((shape.group_size + 1) * shape.head_dim + values) * kNumber + n * sizeof(std::int32_t);
  // When each token left, plus one copy while a replay finishes.
  std::size_t bytes = recorded + (shape.configurations + 1) * n * sizeof(std::int32_t) +
                      cache_memory(shape) + shape.remembered;
  if (shape.trajectories) {
    const std::size_t per_step = shape.has_reference ? shape.group_size * 2 * kNumber : 0;
    bytes += shape.configurations * n * (sizeof(std::int32_t) + per_step);
  }
  if (!shape.has_reference) return bytes;
  bytes += (1 + shape.stored_forms) * (pass_memory(shape) + block_memory(shape)) +
           shape.stored_forms * recorded + outputs_memory(shape) + measuring_memory(shape);
  return bytes + (shape.oracles ? 3 * (n * (n + 1) / 2) * kNumber : 0);
}

std::size_t resident_bytes() {
  std::size_t size = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace kvsim
