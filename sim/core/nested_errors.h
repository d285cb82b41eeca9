#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "sim/core/curve.h"
#include "sim/core/error_kernels.h"
#include "sim/core/exact_prefixes.h"
#include "sim/core/prefix_distances.h"
#include "sim/core/stacked_block.h"

namespace kvsim {

/// Output errors of the caches of some budgets, which hold more and more of one order of tokens.
class NestedErrors {
 public:
  /// `unit` and `values` have to outlive the object. Budgets are ascending; with none the object
  /// does nothing, and values may be null.
  NestedErrors(const Unit& unit, const CentredValues* values, const std::vector<int>& budgets,
               int first_measured);

  /// One measured step of a query head: the tokens before it, in the order of a BudgetStack, and
  /// their exp(l - max l). Heads follow each other.
  void add(const AttentionBlock& block, int row, int head, std::span<const std::int32_t> order,
           std::span<const float> weight);

  /// After the last step of a block. Sets its outputs unless are_dense(budgets): then it needs
  /// them.
  void finish_block(AttentionBlock& block);

  /// Over `count` measurements, of which those that were not added have error 0.
  std::map<int, OutputErrors> finish(std::size_t count) &&;

 private:
  /// What is known of one budget.
  struct Record {
    std::vector<float> errors;
    ErrorSums sums;
  };

  void sum_weights(const AttentionBlock& block, int head);
  void take_all_differences(const AttentionBlock& block, int head);
  void measure_exactly(const AttentionBlock& block, int head, int row);
  void note(const AttentionBlock& block, int head);
  std::size_t num_lacking(int step) const;

  const CentredValues* values_;
  std::vector<int> budgets_;
  std::vector<Record> records_;  // parallel to the budgets
  StackedBlock stacked_;
  bool is_in_block_ = false;
  std::unique_ptr<PrefixDistances> distances_;
  ExactPrefixes exact_;

  // Of one head's block.
  BlockWeights weights_;
  std::vector<StepDoubles> missing_;  // per budget that lacks something: sums of weights
  std::vector<StepDoubles> missing_squares_;
  std::vector<StepDoubles> difference_;  // |o - o'|
  std::array<std::int32_t, kBlockSteps> doubtful_;
};

}  // namespace kvsim
