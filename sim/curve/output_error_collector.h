#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "sim/curve/block_differences.h"
#include "sim/curve/block_in_stack_order.h"
#include "sim/curve/curve.h"
#include "sim/curve/exact_step_differences.h"
#include "sim/kernels/error_kernels.h"

namespace kvsim {

/// In: every measured step in stack order. Out: the OutputErrors of each budget of one policy whose
/// caches nest.
class OutputErrorCollector {
 public:
  /// `unit` and `values` have to outlive the object. `budgets` are ascending; if empty, the object
  /// does nothing, and `values` may be null.
  OutputErrorCollector(const Unit& unit, const MeanCentredValues* values,
                       const std::vector<int>& budgets, int first_measured, const Paging& paging);

  /// One measured step of a query head. Call it for the heads of a step in order.
  void add(const AttentionBlock& block, int row, int head, const StackOrder& step);

  /// After the last step of a block. If all_budgets_are_cheaper(budgets) the block must have its
  /// outputs; else this sets them.
  void finish_block(AttentionBlock& block);

  /// Errors per budget over `count` measurements; those that were not added have error 0.
  std::map<int, OutputErrors> finish(std::size_t count) &&;

 private:
  /// Errors of one budget so far.
  struct Record {
    std::vector<float> errors;
    ErrorSums sums;
  };

  void sum_weights(const AttentionBlock& block, int index);
  void compute_differences(const AttentionBlock& block, int index);
  void recompute_inaccurate(const AttentionBlock& block, int index, int row);
  void record_errors(const AttentionBlock& block, int index);
  int num_places(int num_tokens) const;
  std::size_t num_incomplete(int step) const;

  const MeanCentredValues* values_;
  std::vector<int> budgets_;
  Paging paging_;
  std::vector<Record> records_;  // parallel to the budgets
  BlockInStackOrder ordered_;
  bool has_steps_ = false;  // of the current block
  std::unique_ptr<BlockDifferences> differences_;
  ExactStepDifferences exact_differences_;

  // Of one head's block.
  BlockWeights weights_;
  std::vector<StepDoubles> missing_weight_;           // per budget that misses a token at some step
  std::vector<StepDoubles> missing_squares_;          // sums of squares of these weights
  std::vector<StepDoubles> difference_;               // |o - o'|
  std::array<std::int32_t, kBlockSteps> inaccurate_;  // not 0: rounding of the step is too large
};

}  // namespace kvsim
