#pragma once

#include <cstddef>

namespace kvsim {

/// The size of one replay, as far as memory depends on it.
struct ReplayShape {
  std::size_t num_tokens = 0;
  std::size_t group_size = 1;
  std::size_t head_dim = 0;
  std::size_t value_dim = 0;
  std::size_t configurations = 1;
  std::size_t stored_forms = 0;  ///< different quantisations among them
  bool trajectories = false;
  bool oracles = false;  ///< some configuration sees the future
};

/// About how many bytes replaying one unit takes: the unit itself, one block of full attention,
/// what each configuration remembers, and for oracles the whole attention with two tables of its
/// size.
std::size_t replay_memory(const ReplayShape& shape);

}  // namespace kvsim
