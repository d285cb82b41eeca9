#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "sim/kernels/attention_kernels.h"

// Output errors from distances, for all steps of a block at once.

namespace kvsim {

using StepDoubles = std::array<double, kBlockSteps>;

/// Weights of an order of tokens at each step of a block. The step's token, the newest, is not in
/// the order: every budget keeps it.
struct BlockWeights {
  StepDoubles newest{};                                 ///< weight of the newest token
  StepDoubles sink{};                                   ///< of a learned sink, which stays; or 0
  StepDoubles total{};                                  ///< sum of all weights, these included
  StepDoubles total_squares{};                          ///< sum of the tokens' squares
  std::array<std::int32_t, kBlockSteps> half_budget{};  ///< the smallest that keeps half of `total`
};

/// Fills in half_budget and total_squares; `weight` is [num_places, kBlockSteps].
void find_half_budgets(const float* weight, int num_places, BlockWeights& sums);

/// Adds weights and their squares to sums, from the last place to the first; `weight` is
/// [num_places, kBlockSteps].
void add_missing(const float* weight, int num_places, StepDoubles& sum, StepDoubles& squares);

/// The weight that a budget misses at each step.
struct MissingWeight {
  int budget;
  const StepDoubles& weight;
  const StepDoubles& squares;  ///< sum of squared weights
};

/// How take_differences() scales distances and finds inaccurate steps: those with
/// squared distance < inaccurate_below * Q and Q > relevant_above * (kept weight)^2, where Q is the
/// sum of the squared weights that were summed.
struct DifferenceScale {
  double unit;  ///< of the distances
  double inaccurate_below;
  StepDoubles relevant_above;
};

/// difference = |o - o'| of a budget; `square` as BlockDifferences::squares(). Sets `inaccurate` at
/// steps at which rounding may matter; see DifferenceScale.
void take_differences(const BlockWeights& weights, const MissingWeight& missing,
                      const float* square, const DifferenceScale& scale, StepDoubles& difference,
                      std::array<std::int32_t, kBlockSteps>& inaccurate);

/// Factors and limits per step of a block.
struct ErrorScale {
  StepDoubles error;  ///< error per difference
  StepDoubles bound;  ///< bound per missing weight
  StepDoubles max_bound;
  StepDoubles slack;  ///< by which rounding may let an error exceed its bound
};

struct ErrorSums {
  double error = 0;
  double bound = 0;
  double max_error = 0;
  std::int64_t violations = 0;  ///< errors above their bound
};

/// Adds the errors and bounds of one budget to `sums`. Writes the errors, clamped to the largest
/// float, to `error`, [kBlockSteps].
void add_errors(const StepDoubles& difference, const StepDoubles& missing, const ErrorScale& scale,
                float* error, ErrorSums& sums);

/// What the rounding errors of sums over a head's tokens depend on, at each step of a block.
struct SumRounding {
  StepDoubles total{};           ///< sum of all weights, a sink's included
  StepDoubles sink{};            ///< of these, the sink's
  StepDoubles tokens{};          ///< of these, the tokens'; above 0
  StepDoubles output_norm{};     ///< |o|
  StepDoubles attention_norm{};  ///< |v| of the longest value times tokens / total
  StepDoubles random_norm{};     ///< |v| of the longest value times the norm of the weights / total
};

/// Estimated rounding error, as a distance of outputs, of a sum of weighted values over a share of
/// the attention to tokens, part of which is summed in fp32. It is about 1e-7 of the summed terms:
/// of the norm of the output or, where values cancel, of the norm of a random sum. The norm of a
/// share of the weights is about sqrt(share) of the norm of all weights, but at most their sum.
/// Below a share of 1e-8 the rounding of fp64 dominates.
[[gnu::always_inline]] inline double rounding_of_sum(const SumRounding& head, std::size_t step,
                                                     double share) {
  share = std::max(share, 1e-8);
  const double random_sum =
      std::min(share * head.attention_norm[step], std::sqrt(share) * head.random_norm[step]);
  return 1e-7 * (share * head.output_norm[step] + random_sum);
}

/// The sums of a cache at each step of a block, [kBlockSteps] each, and what is asked of them.
struct CacheSums {
  const double* square;         ///< |o - o'|²
  const double* kept;           ///< sum of the weights attended to and the sink's
  const double* missing_share;  ///< the largest share of the attention to tokens that was summed
  double precision;             ///< a difference is accurate to 1 / precision of it
  double precision_if_little_kept;  ///< if less than half of the attention to tokens is kept
};

/// Of such sums, at each step.
struct DifferenceAccuracy {
  StepDoubles difference;  ///< |o - o'|
  StepDoubles allowed;     ///< the rounding error that a difference may have
  std::array<std::int32_t, kBlockSteps> is_inaccurate;  ///< whether it may have a larger one
};

DifferenceAccuracy accuracy_of(const SumRounding& head, const CacheSums& cache);

}  // namespace kvsim
