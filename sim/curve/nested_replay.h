#pragma once

#include <memory>

#include "sim/cache/page_stack.h"
#include "sim/curve/curve.h"
#include "sim/curve/output_error_collector.h"

namespace kvsim {

/// In: the attention of a unit, step by step. Out: the Curve of one policy whose caches nest: a
/// PageStack stands for the caches of all budgets.
class NestedReplay {
 public:
  /// All arguments have to outlive the object. `values` are those of the unit; null without
  /// CurveOptions::error_budgets.
  NestedReplay(const Spec& policy, const Unit& unit, const MeanCentredValues* values,
               const CurveOptions& options);

  /// Replays the next step, row `row` of the block. `full_attention` is its mean over the query
  /// heads, [step + 1].
  void advance(const AttentionBlock& block, int row, std::span<const float> full_attention);

  /// After the last row of a block; see OutputErrorCollector.
  void finish_block(AttentionBlock& block) { errors_.finish_block(block); }

  Curve finish() &&;

 private:
  void measure(const AttentionBlock& block, int row, int step);
  void update_scores(int step, std::span<const float> full_attention);
  void record_evictions(int step);

  int overflow(int step) const;

  const Unit& unit_;
  Paging paging_;
  int prompt_;  // the steps before this one are not measured
  std::unique_ptr<Policy> policy_;
  Rules rules_;
  PageStack stack_;
  std::vector<std::int32_t> tokens_;             // 0 .. n - 1
  std::vector<TokenKind> kinds_;                 // per token, if the policy reads them
  std::vector<std::span<const float>> queries_;  // of the step, if the policy reads them
  std::vector<double> scores_;                   // per token
  std::vector<float> weight_;                    // of a query head, in stack order

  // Per place, summed over steps and heads: what a budget that ends before it misses.
  std::vector<double> attention_;
  std::vector<std::int32_t> pivotal_;  // number of pivotal tokens
  OutputErrorCollector errors_;
  Curve curve_;
  std::vector<std::int32_t> place_;  // per token: its page's, from 1; 0: not in the stack. Empty:
                                     // no schedules
};

}  // namespace kvsim
