#pragma once

#include <cstddef>

namespace kvsim {

/// The size of one replay, as far as memory depends on it. Tokens are those of the text.
struct ReplayShape {
  std::size_t num_tokens = 0;
  std::size_t group_size = 1;
  std::size_t head_dim = 0;
  std::size_t value_dim = 0;
  std::size_t configurations = 1;
  std::size_t held = 0;          ///< tokens that the caches of all configurations hold
  std::size_t remembered = 0;    ///< bytes that their policies say they remember
  std::size_t gathered = 0;      ///< slots of the largest cache that is replayed by score rules
  std::size_t stored_forms = 0;  ///< different quantisations among them
  std::size_t every = 1;         ///< steps per output error
  bool has_reference = true;
  bool needs_outputs = false;  ///< some configuration cannot wait for the outputs of others
  bool trajectories = false;
  bool oracles = false;  ///< some configuration sees the future
};

/// About how many bytes replaying one unit takes: the unit itself, one block of full attention,
/// what each configuration remembers, and for oracles the whole attention with two tables of its
/// size.
std::size_t replay_memory(const ReplayShape& shape);

/// The bytes that this process takes now; 0 where the system does not say.
std::size_t resident_bytes();

}  // namespace kvsim
