#pragma once

#include <optional>

#include "traces/unit.h"

namespace kvsim {

/// What a trace tells of the condition of Scissorhands Theorem 4.1,
/// lambda_V lambda_O (1 + lambda_1 lambda_2) (1 + lambda_Q lambda_K) <= 1/2, on the largest
/// singular values of the weights of one head. No trace holds W_Q, W_K, W_V, W_1 and W_2. But the
/// theorem's inputs x_t have length 1, so lambda_V >= |x_j W_V| = |v_j|, and likewise for queries
/// and keys: these are lower bounds, which can break the condition and cannot prove it. They hold
/// for projections as the theorem has them: linear, without a bias and not followed by a norm.
struct LambdaCondition {
  double query_key = 0;  ///< lambda_Q lambda_K, at least: scale * largest |q| * largest |k|

  /// lambda_V lambda_O, at least: the largest |v| times lambda_O, the largest singular value of the
  /// head's W_O, over the largest length of the residual stream, which is 1 in the theorem. Nothing
  /// without output_projection and residual.
  std::optional<double> value_output = {};

  /// The left side, at least, with 1 for 1 + lambda_1 lambda_2. Nothing without value_output.
  std::optional<double> left_side() const;

  /// Whether the condition is known not to hold.
  bool is_broken() const;
};

/// That of a query head of the unit's group.
LambdaCondition lambda_condition(const Unit& unit, int head);

}  // namespace kvsim
