#pragma once

#include <array>
#include <cstdint>

#include "sim/core/attention_kernels.h"

// From distances to errors, for all steps of a block at once.

namespace kvsim {

using StepDoubles = std::array<double, kBlockSteps>;

/// Weights of an order of tokens at each step of a block.
struct BlockWeights {
  StepDoubles own{};  ///< of the step's token, which is not in the order but always kept
  StepDoubles total{};
  StepDoubles total_squares{};                     ///< the sum of squares
  std::array<std::int32_t, kBlockSteps> middle{};  ///< the first budget to keep half of the total
};

/// Fills in the middles and total_squares; `weight` is [places, kBlockSteps].
void find_middles(const float* weight, int num_places, BlockWeights& sums);

/// Adds places, from the last one of them on, to sums of weights and of their squares.
void add_missing(const float* weight, int num_places, StepDoubles& sum, StepDoubles& squares);

/// What a budget lacks at each step.
struct Lack {
  int budget;
  const StepDoubles& weight;
  const StepDoubles& squares;  ///< their sum
};

/// What turns squares of distances into differences of outputs.
struct DifferenceScale {
  double unit;        ///< of the distances
  double doubtful;    ///< squares of distances are in doubt below so many summed squared weights
  StepDoubles least;  ///< unless these are less than so many squares of the weight kept
};

/// difference = |o - o'| of a budget; `square` as PrefixDistances::squares(). Steps at which
/// rounding may matter become doubtful.
void take_differences(const BlockWeights& weights, const Lack& lack, const float* square,
                      const DifferenceScale& scale, StepDoubles& difference,
                      std::array<std::int32_t, kBlockSteps>& doubtful);

/// Per step of a block.
struct ErrorScale {
  StepDoubles error;  ///< from difference to error
  StepDoubles bound;  ///< from missing weight to the error's bound
  StepDoubles most;   ///< of the bound
  StepDoubles slack;  ///< by which rounding may let an error exceed its bound
};

struct ErrorSums {
  double error = 0;
  double bound = 0;
  double largest = 0;  ///< error
  std::int64_t violations = 0;
};

/// Adds up errors and bounds of one budget; writes the errors, of which none exceeds the largest
/// float.
void add_errors(const StepDoubles& difference, const StepDoubles& missing, const ErrorScale& scale,
                float* error, ErrorSums& sums);

}  // namespace kvsim
