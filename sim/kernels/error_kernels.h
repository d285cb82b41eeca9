#pragma once

#include <array>
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

}  // namespace kvsim
