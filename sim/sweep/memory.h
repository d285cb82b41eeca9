#pragma once

#include <cstddef>

#include "sim/sweep/selection.h"

namespace kvsim {

/// The sizes on which the memory of one unit's replays depends.
struct ReplayShape {
  std::size_t num_tokens = 0;  ///< of the text
  std::size_t group_size = 1;
  std::size_t head_dim = 0;
  std::size_t value_dim = 0;
  std::size_t configurations = 1;
  std::size_t held = 0;              ///< tokens in the caches of all configurations, in sum
  std::size_t held_with_values = 0;  ///< of these, in caches whose policy reads values
  std::size_t rotations = 0;         ///< configurations that move keys to their slots
  std::size_t remembered = 0;        ///< bytes that their policies remember, by their Rules
  std::size_t gathered = 0;          ///< slots of the largest cache of a ScoreReplay
  std::size_t stored_forms = 0;      ///< different quantisations among the configurations
  std::size_t gradient_samples = 0;  ///< recorded gradients
  std::size_t hidden = 0;            ///< columns of a recorded output projection
  std::size_t most_selected = 0;     ///< tokens that the model selects at a step
  std::size_t error_stride = 1;      ///< see Protocol
  std::size_t samples = 0;           ///< the same; above 0 without has_reference
  bool has_reference = true;
  bool reads_values = true;    ///< for the reference, or for a policy
  bool needs_outputs = false;  ///< some configuration needs outputs before the block ends
  bool trajectories = false;
  bool oracles = false;  ///< some configuration is an oracle
  bool losses = false;   ///< one of another cost than the attention lost
};

/// Of one replay of a unit.
ReplayShape shape_of(const SelectedUnit& unit);

/// An estimate of the memory of one unit's replays, in bytes: the unit, one block of full
/// attention, the state of each configuration, and for oracles three tables of the whole
/// attention's size, and one more if one weighs other losses.
std::size_t replay_memory(const ReplayShape& shape);

/// What an oracle takes at most for a budget of a unit that another thread plans.
std::size_t planning_memory(const ReplayShape& shape);

/// Of that, what reading the unit before its replays takes.
std::size_t read_memory(const ReplayShape& shape);

/// The rows that the program reads at the end to print a table of them.
std::size_t table_memory(std::size_t rows);

/// The resident memory of this process, in bytes; 0 if unknown.
std::size_t resident_bytes();

/// The memory that the process takes in addition to the estimate, in bytes: what it takes now, and
/// the code, stacks and pages of the result file that it has not touched yet.
std::size_t own_memory();

}  // namespace kvsim
