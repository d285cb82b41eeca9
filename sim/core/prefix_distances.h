#pragma once

#include <span>
#include <vector>

#include "sim/core/centred_values.h"
#include "sim/core/error_kernels.h"
#include "sim/core/stacked_block.h"

namespace kvsim {

/// How far the outputs of the caches of some budgets are from that of the full one, for all steps
/// of a block. Either way a budget's distance follows from what it keeps or from what it lacks,
/// whichever has less weight: a small sum has a small rounding error.
class PrefixDistances {
 public:
  /// `values` have to outlive the object.
  explicit PrefixDistances(const CentredValues& values) : values_(values) {}
  virtual ~PrefixDistances() = default;

  /// Of one query head. `missing`: per budget that lacks anything at any of the steps, the weight
  /// of what it lacks.
  virtual void compute(AttentionBlock& block, int head, const StackedBlock& stacked,
                       const BlockWeights& weights, std::span<const StepDoubles> missing) = 0;

  /// Per row of the block, the square of |o - o'| times the weight of what the budget keeps, in
  /// CentredValues::unit(). 0 where the budget lacks nothing.
  const float* squares(int budget) const { return squares_.row(budget); }

 protected:
  /// All that are not written for every step.
  void clear_squares(const AttentionBlock& block, const StackedBlock& stacked);

  const CentredValues& values_;
  AlignedRows squares_;  // [places + 1, kBlockSteps]
};

/// Distances at every place, from sums of weight * (value - full output) along each step's order,
/// in fp32. The block has to come with its outputs.
class PlaceDistances final : public PrefixDistances {
 public:
  using PrefixDistances::PrefixDistances;

  void compute(AttentionBlock& block, int head, const StackedBlock& stacked,
               const BlockWeights& weights, std::span<const StepDoubles> missing) override;

 private:
  void set_rows(const AttentionBlock& block, int head, const StackedBlock& stacked);
  void add(const StackedBlock& stacked, int head, int row, int begin, int end, bool upwards);

  // Per row.
  AlignedRows output_;
  AlignedRows sum_;
};

/// Distances at some budgets alone, from sums of weighted values over what lies between them: in
/// fp32 over up to kMostPlaces, in fp64 beyond. All together are the outputs, which it sets.
class SegmentDistances final : public PrefixDistances {
 public:
  /// Ascending budgets.
  SegmentDistances(const CentredValues& values, std::vector<int> budgets)
      : PrefixDistances(values), budgets_(std::move(budgets)) {}

  void compute(AttentionBlock& block, int head, const StackedBlock& stacked,
               const BlockWeights& weights, std::span<const StepDoubles> missing) override;

 private:
  void cut(int num_places);
  void sum_segment(std::span<const std::int32_t> order, const float* weight, std::size_t segment,
                   float* sum) const;
  void take_sums(std::int32_t step, double own, int row);
  void measure(int row, int step, double total, std::span<const StepDoubles> missing);

  std::vector<int> budgets_;

  // Of one head's block.
  std::vector<int> cuts_;  // places: segment i lies between cuts i and i + 1
  AlignedRows sums_;       // per segment, for some rows

  // Of one row.
  std::vector<double> own_;             // weighted value of the step's own token
  std::vector<const float*> segments_;  // sums of weighted values
  std::vector<double> output_;
  std::vector<double> sum_;
};

/// Whether these budgets are so many that distances at every place take less time.
bool are_dense(std::span<const int> budgets);

}  // namespace kvsim
