#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/kernels/portable.h"
#include "sim/attention/pivotal.h"
#include "sim/kernels/score_kernels.h"

namespace kvsim::gpu {

/// Steps per block. A batch goes through the text block by block.
inline constexpr int kSteps = 64;

/// Threads of a block, but of one that replays a small cache.
inline constexpr int kMostThreads = 256;
inline constexpr int kWarpThreads = 32;

/// The most slots of a cache that one warp replays; next to 32 of them there is room on a Hopper
/// multiprocessor for no more.
inline constexpr int kSmallCache = 448;

/// Tokens per thread block of the kernels whose threads have a token each.
inline constexpr int kTokenTile = 256;

constexpr int token_tiles(int num_tokens) { return (num_tokens + kTokenTile - 1) / kTokenTile; }

/// The shape that all units of a batch share.
struct Shape {
  int num_tokens = 0;
  int group_size = 1;
  int head_dim = 0;
  int value_dim = 0;
  int prompt_length = 0;          ///< steps before this one attend in full; 0 in stream mode
  bool has_half_vectors = false;  ///< all queries and keys are float16 numbers

  bool operator==(const Shape&) const = default;
};

/// A unit's settings of the attention, and which replays of the batch are its own.
struct UnitTask {
  float scale = 1;
  float softcap = 0;        ///< logit becomes cap * tanh(logit / cap); 0: none
  int sliding_window = 0;   ///< token j is visible at step t while t - window < j <= t
  int attention_chunk = 0;  ///< and while j / chunk == t / chunk
  int first_replay = 0;     ///< its replays are consecutive
  int num_replays = 0;
};

/// One configuration of one unit.
struct ReplayTask {
  int unit = 0;
  int budget = 1;
  int most_held = 1;       ///< see kvsim::Protocol::most_held(); at most the number of tokens
  bool never = false;      ///< evicts at the end of the prompt only
  int protect_first = 0;   ///< at most the budget
  int protect_newest = 0;  ///< at most the budget less protect_first
  int drop = 1;            ///< an overflow evicts a multiple of this many tokens
  bool sees_full_attention = false;
  bool selects = false;  ///< evicts nothing; selects at each step the tokens to attend to
  ScoreRule rule = {};
  std::size_t remembered = 0;  ///< offset of its RememberedScores in Batch::remembered, in bytes
  std::size_t remembered_bytes = 0;
  int prompt_of = 0;    ///< the replay that goes through the prompt for this one; may be its own
  int arrival_row = 0;  ///< row of Batch::arrival_score, for rules of the kind `newest`
};

/// Replays that one launch of replay_steps() or score_prompts() takes together.
struct ReplayGroup {
  int first = 0;  ///< in Batch::replay_order
  int count = 0;
  int slots = 0;  ///< of the largest cache among them during the block, gaps included
};

/// What one row of a replay misses, which decides how its output difference is computed.
enum class Loss : std::uint8_t {
  nothing,
  tokens,     ///< some visible tokens
  nearly_all  ///< the kept weights underflow and are rescaled to exp(logit - offset)
};

/// A token that is missing from just one of a cache and its parent: the token if it is missing from
/// the cache, its bitwise complement if it is missing from the parent.
using Term = std::int32_t;

/// The totals of a replay over the query heads and the measured steps: sums, and the other numbers
/// of Result and CacheUsage.
struct ReplayTotals {
  double attention_loss;
  double error;
  double squared;
  double bound;
  double largest_error;
  double error_p50;
  double error_p95;
  std::int64_t accesses;
  std::int64_t misses;
  std::int64_t violations;
  std::int64_t evictions;
  std::int64_t peak_held;
  std::int64_t ties;
  std::int64_t footprint;  ///< tokens held after a measured step, summed over steps
};

/// Parents in the tree of caches that are not replays: the cache of all tokens and that of none.
inline constexpr int kFullCache = -1;
inline constexpr int kEmptyCache = -2;

/// A batch in device memory: units of one shape, several replays of each, and one block of steps.
/// Arrays are row-major. R: replays, U: units, H: query heads per unit, n: tokens, S: kSteps.
struct Batch {
  Shape shape;
  int num_units = 0;
  int num_replays = 0;
  int num_selecting = 0;  ///< replays with ReplayTask::selects
  int first_step = 0;     ///< of the block
  int num_steps = 0;      ///< at most kSteps
  int capacity = 0;       ///< C: slots of a cache
  int error_stride = 1;   ///< see kvsim::Protocol
  ReplayGroup group;      ///< of the next replay_steps() or score_prompts()

  const UnitTask* units = nullptr;             ///< [U]
  const ReplayTask* replays = nullptr;         ///< [R]
  const float* query = nullptr;                ///< [U, n, H, head_dim]; not of half vectors
  const float* key = nullptr;                  ///< [U, n, head_dim]
  const std::uint16_t* half_query = nullptr;   ///< as `query`, in float16; of half vectors only
  const std::uint16_t* half_key = nullptr;     ///< as `key`, in float16; of half vectors only
  const float* value = nullptr;                ///< [U, n, value_dim]
  const double* longest_value = nullptr;       ///< [U, n]: the largest |v_i| of tokens i <= j
  const float* sink_logit = nullptr;           ///< [U, H]; minus infinity: no sink
  const double* arrival_score = nullptr;       ///< [A, n] for A replays of the kind `newest`
  const std::int32_t* replay_order = nullptr;  ///< [2 R]: where groups find their replays

  // The block's full attention. Written by multiply_keys() and weigh_row().
  float* logit = nullptr;   ///< [U, S, H, n]: first <query, key>, then l[t,j]
  float* weight = nullptr;  ///< [U, S, H, n]: exp(l[t,j] - max_j l[t,j]), the maximum including the
                            ///< sink; 0 if not visible
  double* sink_weight = nullptr;        ///< [U, S, H]: that of the sink; 0 without one
  double* weight_sum = nullptr;         ///< [U, S, H], the sink's included
  std::int32_t* num_pivotal = nullptr;  ///< [U, n, H]

  // The caches between two blocks, without gaps (held_*), and the slots of the running block for
  // caches that do not fit in on-chip memory (slot_*).
  std::int32_t* held_token = nullptr;  ///< [R, C]
  double* held_score = nullptr;        ///< [R, C]
  std::int32_t* num_held = nullptr;    ///< [R]
  std::int32_t* slot_token = nullptr;  ///< [R, C]
  double* slot_score = nullptr;        ///< [R, C]
  float* slot_attention = nullptr;     ///< [R, C]

  std::byte* remembered = nullptr;  ///< see RememberedScores

  // Written by replay_steps(); loss and misses of replays that select by select_tokens().
  std::int32_t* evicted_after = nullptr;  ///< [R, n]; n: never
  std::int32_t* num_ties = nullptr;       ///< [R]: evictions so far that equal scores decided
  std::int32_t* peak_held = nullptr;   ///< [R]: most tokens held so far after a step that may evict
  std::uint64_t* missing = nullptr;    ///< [R, words()]: a bit per token evicted before the block
  double* kept = nullptr;              ///< [R, S, H]: of the weights attended to and the sink's
  float* offset = nullptr;             ///< [R, S, H]: see Loss::nearly_all
  Loss* loss = nullptr;                ///< [R, S, H]
  double* attention_loss = nullptr;    ///< [R, n, H]
  std::int32_t* num_misses = nullptr;  ///< [R, n, H]

  // The tree of caches. Written by link_caches() and list_terms().
  std::int32_t* parent = nullptr;       ///< [R]: a replay, kFullCache or kEmptyCache
  std::int32_t* distance = nullptr;     ///< [R]: to the parent, in tokens
  std::int32_t* order = nullptr;        ///< [R]: the replays of each unit, parents before children
  Term* term = nullptr;                 ///< [R, n]
  std::int32_t* num_terms = nullptr;    ///< [R]
  std::int32_t* evicted = nullptr;      ///< [R, n]: tokens evicted during the block
  std::int32_t* num_evicted = nullptr;  ///< [R]

  // Sums of weight times value, written by sum_values(), and what output_differences() makes of
  // them.
  double* full_sum = nullptr;     ///< [U, S, H, value_dim], over all tokens
  double* term_sum = nullptr;     ///< [R, S, H, value_dim], over the terms, then all missing tokens
  double* evicted_sum = nullptr;  ///< [R, S, H, value_dim], over the evicted tokens
  double* output_norm = nullptr;  ///< [U, n, H]: |o|
  double* difference = nullptr;   ///< [R, n, H]: |o - o'|; total_replay() divides it by |o|
  ReplayTotals* totals = nullptr;  ///< [R]; written by total_replay()

  // Summaries of attention. A batch holds the arrays of at most one of them.
  double small_threshold = 0;         ///< share of a row's largest attention
  std::int32_t* num_small = nullptr;  ///< [U, n, H]
  PivotalThreshold pivotal_threshold = {};
  PivotalSteps* pivotal_steps = nullptr;  ///< [U, H, n]
  int first_measured = 0;                 ///< steps from this one on count in `remaining`
  float* mean_attention = nullptr;        ///< [U, n (n + 1) / 2], mean over the heads
  float* remaining = nullptr;             ///< the same shape: its sum over later steps

  /// Tokens that a step of the block may see.
  constexpr int width() const { return first_step + num_steps; }
  /// Rows of the block, (step, query head), per unit or replay.
  constexpr int rows() const { return num_steps * shape.group_size; }
  /// Words of a bit set over the tokens.
  constexpr int words() const { return (shape.num_tokens + 63) / 64; }

  /// Index of row `row` of a unit or replay in arrays [.., S, H]; row = step in block * H + head.
  constexpr std::size_t block_row(int of, int row) const {
    return static_cast<std::size_t>(of) * kSteps * shape.group_size + row;
  }
  /// The same row of arrays [.., n, H].
  constexpr std::size_t text_row(int of, int row) const {
    const std::size_t first = static_cast<std::size_t>(of) * shape.num_tokens + first_step;
    return first * shape.group_size + row;
  }
  /// Index of the first token of a unit or replay in arrays [.., n].
  constexpr std::size_t tokens_of(int of) const {
    return static_cast<std::size_t>(of) * shape.num_tokens;
  }
  /// The first token that a step can see.
  constexpr int first_visible(int unit, int step) const {
    const int window = units[unit].sliding_window;
    const int chunk = units[unit].attention_chunk;
    const int in_window = step + 1 > window ? step + 1 - window : 0;
    const int in_chunk = step / chunk * chunk;
    return in_window > in_chunk ? in_window : in_chunk;
  }
  /// The logit of the sink of a row.
  constexpr float sink_of(int unit, int row) const {
    return sink_logit[unit * shape.group_size + row % shape.group_size];
  }
};

}  // namespace kvsim::gpu
