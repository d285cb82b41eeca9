#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/portable.h"
#include "sim/core/pivotal.h"
#include "sim/core/score_kernels.h"

namespace kvsim::gpu {

/// Steps that are computed together.
inline constexpr int kSteps = 64;

/// What all units of a batch have in common.
struct Shape {
  int num_tokens = 0;
  int group_size = 1;
  int head_dim = 0;
  int value_dim = 0;
  int prompt_length = 0;  ///< steps before this one attend in full; 0 in stream mode

  bool operator==(const Shape&) const = default;
};

/// What one unit's attention and replays depend on beside its vectors.
struct UnitTask {
  float scale = 1;
  float softcap = 0;       ///< 0: none
  int sliding_window = 0;  ///< token j is visible at step t while t - window < j <= t
  int first_replay = 0;    ///< its replays follow each other
  int num_replays = 0;
};

/// One configuration of one unit.
struct ReplayTask {
  int unit = 0;
  int budget = 1;
  int protect_first = 0;   ///< cut to the budget
  int protect_newest = 0;  ///< cut to what that leaves
  int drop = 1;
  bool sees_full_attention = false;
  bool selects = false;  ///< evicts nothing and chooses at each step what to attend to
  ScoreRule rule = {};
  std::size_t remembered = 0;  ///< where what its rule remembers begins, in bytes
  int arrival_row = 0;         ///< of the arrival scores, for a rule that scores only what is new
};

/// What a step of a replay has lost.
enum class Loss : std::uint8_t {
  nothing,
  tokens,
  nearly_all  ///< what is kept has weights of its own: exp(logit - offset)
};

/// A token's place among those by which two caches differ: the token itself where the child lacks
/// it and its parent does not, else its complement.
using Term = std::int32_t;

/// Parents of caches in the tree of sums that are no replays.
inline constexpr int kLacksNothing = -1;
inline constexpr int kLacksEverything = -2;

/// A batch in device memory: units of one shape, several replays of each, and one block of steps.
/// Arrays are row-major; R, U, H, n are replays, units, query heads per unit and tokens, S kSteps.
struct Batch {
  Shape shape;
  int num_units = 0;
  int num_replays = 0;
  int num_selecting = 0;  ///< replays that select
  int first_step = 0;     ///< of the block
  int num_steps = 0;      ///< at most kSteps
  int capacity = 0;       ///< slots of a cache, C

  const UnitTask* units = nullptr;        ///< [U]
  const ReplayTask* replays = nullptr;    ///< [R]
  const float* query = nullptr;           ///< [U, n, H, head_dim]
  const float* key = nullptr;             ///< [U, n, head_dim]
  const float* value = nullptr;           ///< [U, n, value_dim]
  const double* arrival_score = nullptr;  ///< [rows, n]

  // The block's attention, by weigh_row().
  float* logit = nullptr;        ///< [U, S, H, n]; <query, key> at first, then l[t,j]
  float* weight = nullptr;       ///< [U, S, H, n]: exp(l - largest visible); 0 if not visible
  double* weight_sum = nullptr;  ///< [U, S, H]
  std::int32_t* num_pivotal = nullptr;  ///< [U, n, H]

  // The caches between blocks, without gaps, and room to work where it does not fit on chip.
  std::int32_t* held_token = nullptr;  ///< [R, C]
  double* held_score = nullptr;        ///< [R, C]
  std::int32_t* num_held = nullptr;    ///< [R]
  std::int32_t* slot_token = nullptr;  ///< [R, C]
  double* slot_score = nullptr;        ///< [R, C]
  float* slot_attention = nullptr;     ///< [R, C]

  std::byte* remembered = nullptr;  ///< see RememberedScores

  // What happened, by replay_steps().
  std::int32_t* evicted_after = nullptr;  ///< [R, n]; n: never
  std::uint64_t* lacking = nullptr;       ///< [R, words()]: a bit per token gone before the block
  double* kept = nullptr;                 ///< [R, S, H]: sum of the weights attended to
  float* offset = nullptr;                ///< [R, S, H]: see Loss::nearly_all
  Loss* loss = nullptr;                   ///< [R, S, H]
  double* attention_loss = nullptr;       ///< [R, n, H]
  std::int32_t* num_misses = nullptr;     ///< [R, n, H]

  // The tree of sums, by link_caches() and list_terms().
  std::int32_t* parent = nullptr;     ///< [R]: a replay, kLacksNothing or kLacksEverything
  std::int32_t* distance = nullptr;   ///< [R]: tokens by which it differs from that
  std::int32_t* order = nullptr;      ///< [R]: replays of a unit, parents first
  Term* term = nullptr;               ///< [R, n]
  std::int32_t* num_terms = nullptr;  ///< [R]
  std::int32_t* late = nullptr;       ///< [R, n]: tokens that leave during the block
  std::int32_t* num_late = nullptr;   ///< [R]

  // Sums of weight times value, by sum_values(), and what follows from them, by
  // output_differences().
  double* full_sum = nullptr;     ///< [U, S, H, value_dim], over all tokens
  double* term_sum = nullptr;     ///< [R, S, H, value_dim], over the terms, then over all it lacks
  double* late_sum = nullptr;     ///< [R, S, H, value_dim], over the late tokens
  double* output_norm = nullptr;  ///< [U, n, H]
  double* difference = nullptr;   ///< [R, n, H]: |o - o'|

  // Summaries of attention, each only in batches that are for it.
  double small_threshold = 0;         ///< of a row's largest attention
  std::int32_t* num_small = nullptr;  ///< [U, n, H]
  PivotalThreshold pivotal_threshold = {};
  PivotalSteps* pivotal_steps = nullptr;  ///< [U, H, n]
  int first_measured = 0;                 ///< the step from which on attention counts
  float* mean_attention = nullptr;        ///< [U, n (n + 1) / 2], mean over the heads
  float* remaining = nullptr;             ///< the same shape: what of it is still to come

  constexpr int width() const { return first_step + num_steps; }
  constexpr int rows() const { return num_steps * shape.group_size; }
  constexpr int words() const { return (shape.num_tokens + 63) / 64; }

  /// Of a unit or a replay: row `row` of the block, step and head in one, of arrays [.., S, H].
  constexpr std::size_t block_row(int of, int row) const {
    return static_cast<std::size_t>(of) * kSteps * shape.group_size + row;
  }
  /// The same row of arrays [.., n, H].
  constexpr std::size_t text_row(int of, int row) const {
    const std::size_t first = static_cast<std::size_t>(of) * shape.num_tokens + first_step;
    return first * shape.group_size + row;
  }
  /// Of a unit or a replay: its part of arrays [.., n].
  constexpr std::size_t tokens_of(int of) const {
    return static_cast<std::size_t>(of) * shape.num_tokens;
  }
  /// The first token that a step sees.
  constexpr int first_visible(int unit, int step) const {
    const int window = units[unit].sliding_window;
    return step + 1 > window ? step + 1 - window : 0;
  }
};

}  // namespace kvsim::gpu
