#pragma once

#include <span>
#include <vector>

#include "sim/curve/block_in_stack_order.h"
#include "sim/curve/mean_centred_values.h"
#include "sim/kernels/error_kernels.h"

namespace kvsim {

/// In: the weights of a block in stack order. Out: per budget and step, how far the output o' of
/// the budget's cache is from the full output o, as a square in fp32. The sum runs over the kept
/// or the missing tokens, whichever have less weight: a small sum has a small rounding error.
class BlockDifferences {
 public:
  /// `values` has to outlive the object.
  explicit BlockDifferences(const MeanCentredValues& values) : values_(values) {}
  virtual ~BlockDifferences() = default;

  /// Computes squares() for one query head of the block. `missing`: per budget that misses a token
  /// at some step, the weight of the missing tokens at each step.
  virtual void compute(AttentionBlock& block, int head, const BlockInStackOrder& ordered,
                       const BlockWeights& weights, std::span<const StepDoubles> missing) = 0;

  /// (|o - o'| W_kept / MeanCentredValues::scale())^2 per row of the block, [kBlockSteps], W_kept
  /// being the weight of the kept tokens. 0 where the budget misses nothing.
  const float* squares(int budget) const { return squares_.row(budget); }

 protected:
  /// Sets to 0 what compute() does not write for every step.
  void clear_squares(const AttentionBlock& block, const BlockInStackOrder& ordered);

  const MeanCentredValues& values_;
  AlignedRows squares_;  // [places + 1, kBlockSteps]
};

/// Squares at every budget: sums weight * (value - full output) in stack order, in fp32, and takes
/// the square after each token. The block must have its outputs.
class AllBudgetsDifferences final : public BlockDifferences {
 public:
  using BlockDifferences::BlockDifferences;

  void compute(AttentionBlock& block, int head, const BlockInStackOrder& ordered,
               const BlockWeights& weights, std::span<const StepDoubles> missing) override;

 private:
  void start_rows(const AttentionBlock& block, int head, const BlockInStackOrder& ordered);
  void add_places(const BlockInStackOrder& ordered, int head, int row, int begin, int end,
                  bool upwards);

  AlignedRows output_;  // [kBlockSteps, stride]
  AlignedRows sum_;     // [kBlockSteps, stride]
};

/// Squares at a few budgets: sums the weighted values of each segment between two budgets, in fp32
/// over at most kMaxTokensPerSum tokens, in fp64 beyond. All segments together give the full
/// outputs, which it writes to the block.
class FewBudgetsDifferences final : public BlockDifferences {
 public:
  /// `budgets` are ascending.
  FewBudgetsDifferences(const MeanCentredValues& values, std::vector<int> budgets)
      : BlockDifferences(values), budgets_(std::move(budgets)) {}

  void compute(AttentionBlock& block, int index, const BlockInStackOrder& ordered,
               const BlockWeights& weights, std::span<const StepDoubles> missing) override;

 private:
  void set_boundaries(int num_places);
  void sum_segment(std::span<const std::int32_t> order, const float* weight, std::size_t segment,
                   float* sum) const;
  void collect_segments(std::int32_t step, int num_places, double own, double sink, int row);
  void compute_row(int row, int num_places, double total, std::span<const StepDoubles> missing);

  std::vector<int> budgets_;

  // Of one head's block.
  std::vector<int> boundaries_;  // places: segment i is [boundaries_[i], boundaries_[i + 1])
  AlignedRows sums_;             // [segments * kRowsAtOnce, stride]

  // Of one row.
  std::vector<double> own_value_;           // weighted value of the step's own token and the sink
  std::vector<const float*> segment_sums_;  // per segment: its sum of weighted values
  std::vector<double> output_;
  std::vector<double> sum_;
};

/// Whether AllBudgetsDifferences takes less time for these budgets than FewBudgetsDifferences.
bool all_budgets_are_cheaper(std::span<const int> budgets);

}  // namespace kvsim
