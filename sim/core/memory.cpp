#include "sim/core/memory.h"

#include "sim/core/attention_kernels.h"

namespace kvsim {

std::size_t replay_memory(const ReplayShape& shape) {
  const std::size_t n = shape.num_tokens;
  const std::size_t recorded =
      n * (shape.group_size * shape.head_dim + shape.head_dim + shape.value_dim);
  // Keys in panels and values spread out.
  const std::size_t arranged = n * (shape.head_dim + shape.value_dim + 16);
  const std::size_t block =
      shape.group_size * kBlockSteps * (3 * n * sizeof(float) + shape.value_dim * sizeof(double));
  const std::size_t matrix_being_read = n * shape.head_dim * sizeof(float);
  // Tokens and when they left, scores, two kinds of attention; then an error per query head.
  const std::size_t per_configuration =
      n * (2 * sizeof(std::int32_t) + sizeof(double) + 2 * sizeof(float)) +
      n * shape.group_size * (sizeof(double) + (shape.trajectories ? 2 * sizeof(float) : 0));
  const std::size_t forms = 1 + shape.stored_forms;
  const std::size_t future = shape.oracles ? 3 * (n * (n + 1) / 2) * sizeof(float) : 0;
  return forms * ((recorded + arranged) * sizeof(float) + block + n * sizeof(double)) +
         matrix_being_read + future + shape.configurations * per_configuration;
}

}  // namespace kvsim
