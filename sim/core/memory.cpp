#include "sim/core/memory.h"

#include <unistd.h>

#include <fstream>

#include "sim/core/attention_kernels.h"
#include "sim/core/value_kernels.h"

namespace kvsim {
namespace {

constexpr std::size_t kNumber = sizeof(float);

/// Keys in panels, and the length of the longest value so far.
std::size_t pass_memory(const ReplayShape& shape) {
  return shape.num_tokens * (shape.head_dim * kNumber + sizeof(double));
}

/// Logits, weights and their transpose, a bit per pivotal token.
std::size_t block_memory(const ReplayShape& shape) {
  const std::size_t per_step = shape.num_tokens * 3 * kNumber + shape.num_tokens / 8;
  return shape.group_size * kBlockSteps * (per_step + shape.value_dim * sizeof(double));
}

/// Sets of tokens, which are bits, the errors, and the weights of slots of one cache at a time.
std::size_t measuring_memory(const ReplayShape& shape) {
  const std::size_t errors =
      shape.group_size * (shape.num_tokens / shape.every + 1) * sizeof(double);
  const std::size_t sets = 3 * shape.num_tokens / 8;
  const std::size_t weights = shape.group_size * kBlockSteps * kNumber;
  return shape.configurations * (errors + sets) + shape.gathered * weights;
}

/// Outputs are sums over the tokens that one cache lacks and those that the others differ in.
std::size_t outputs_memory(const ReplayShape& shape) {
  const std::size_t values = shape.num_tokens * spread_dims(shape.value_dim) * kNumber;
  const std::size_t copies = shape.needs_outputs ? 2 : 1;
  return copies * values + (shape.num_tokens + 2 * shape.held) * sizeof(Term);
}

/// Tokens, scores, attention and their slots; without a reference their keys once more.
std::size_t cache_memory(const ReplayShape& shape) {
  const std::size_t per_slot = 2 * sizeof(std::int32_t) + sizeof(double) + kNumber;
  const std::size_t resident = shape.head_dim * kNumber + 3 * sizeof(std::int32_t) + 2 * kNumber;
  return shape.held * (shape.has_reference ? 2 * per_slot : per_slot + resident);
}

}  // namespace

std::size_t replay_memory(const ReplayShape& shape) {
  const std::size_t n = shape.num_tokens;
  const std::size_t values = shape.has_reference ? shape.value_dim : 0;
  const std::size_t recorded =
      n * ((shape.group_size + 1) * shape.head_dim + values) * kNumber + n * sizeof(std::int32_t);
  // When each token left, and once more for the one that finishes.
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
