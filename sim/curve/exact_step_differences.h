#pragma once

#include <span>
#include <vector>

#include "sim/curve/block_in_stack_order.h"

namespace kvsim {

/// One query head's attention at one step, with the earlier tokens in the order of a PageStack.
struct StepInStackOrder {
  const HeadAttention& head;
  int index;  ///< of the query head
  int row;
  int step;
  StackOrder tokens;
};

/// In: one step in stack order. Out: |o - o'| in fp64, per budget, o' being the output of its
/// cache. For the steps at which the rounding of BlockDifferences is too large.
class ExactStepDifferences {
 public:
  /// `unit` has to outlive the object. `budgets` are ascending.
  ExactStepDifferences(const Unit& unit, std::vector<int> budgets)
      : unit_(unit), budgets_(std::move(budgets)), difference_(budgets_.size()) {}

  /// |o - o'| of the first `count` budgets, [count]; each of them misses some token.
  std::span<const double> compute(const StepInStackOrder& step, std::size_t count);

  /// The same where these caches keep less weight than kMinWeightSum: takes their weights
  /// relative to their own largest logit.
  std::span<const double> compute_rescaled(const StepInStackOrder& step, std::size_t count);

 private:
  void set_ends(const StackOrder& step, std::size_t count);
  void sum_weights(double always_kept, std::span<const float> weight, std::size_t count);
  void compute_from_kept(const StepInStackOrder& step, float own, std::span<const float> weight,
                         std::size_t from, std::size_t to);
  void compute_from_missing(const StepInStackOrder& step, std::size_t from, std::size_t to);
  std::size_t rescale_largest(const StepInStackOrder& step, std::size_t count);
  void add_values_of(const StepInStackOrder& step, std::span<const float> weight,
                     std::size_t segment);
  void store_difference(const StepInStackOrder& step, std::size_t budget, double weight);
  std::size_t begin_of(std::size_t segment) const { return segment == 0 ? 0 : end_[segment - 1]; }

  const Unit& unit_;
  std::vector<int> budgets_;
  std::vector<double> difference_;  // per budget

  // Of the current step. Budget i keeps the first end_[i] tokens of the order. Segment i of the
  // order: the tokens that budget i keeps and budget i - 1 does not; the last segment: the tokens
  // that no budget keeps.
  std::vector<std::size_t> end_;
  std::vector<double> segment_weight_;  // per segment: sum of weights
  std::vector<double> kept_weight_;     // per budget, with the step's own token and the sink
  std::vector<double> missing_weight_;  // per budget, relative to the largest logit of the step
  std::vector<float> rescaled_weight_;  // relative to the largest logit of a prefix of the order
  Eigen::RowVectorXd value_sum_;        // of weighted values
};

}  // namespace kvsim
