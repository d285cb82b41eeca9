#pragma once

#include <memory>

#include "sim/core/budget_stack.h"
#include "sim/core/curve.h"
#include "sim/core/nested_errors.h"

namespace kvsim {

/// The replays of one policy at all budgets, as one stack on its way through a unit.
class NestedReplay {
 public:
  /// All have to outlive the object. `values` are those of the unit; null if no errors are asked
  /// for.
  NestedReplay(const Spec& policy, const Unit& unit, const CentredValues* values,
               const CurveOptions& options);

  /// The next step, row `row` of the block. `full_attention` is its mean over the query heads,
  /// [step + 1].
  void advance(const AttentionBlock& block, int row, std::span<const float> full_attention);

  /// After the last row of a block; see NestedErrors.
  void finish_block(AttentionBlock& block) { errors_.finish_block(block); }

  Curve finish() &&;

 private:
  void measure(const AttentionBlock& block, int row, int step);
  void update_scores(int step, std::span<const float> full_attention);
  void note_departures(int step);

  const Unit& unit_;
  int prompt_;  // steps that are not measured
  std::unique_ptr<Policy> policy_;
  Rules rules_;
  BudgetStack stack_;
  std::vector<std::int32_t> tokens_;  // 0 .. n - 1
  std::vector<TokenKind> kinds_;      // per token, if the policy looks
  std::vector<double> scores_;        // per token
  std::vector<float> weight_;         // of a query head, in the order of the stack

  // Per place: what a cache that ends before it has lost there.
  std::vector<double> attention_;
  std::vector<std::int32_t> pivotal_;
  NestedErrors errors_;
  Curve curve_;
  std::vector<std::int32_t>
      place_;  // per token, counted from 1; 0: not there. If schedules are kept
};

}  // namespace kvsim
