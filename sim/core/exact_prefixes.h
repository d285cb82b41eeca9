#pragma once

#include <span>
#include <vector>

#include "sim/core/attention.h"

namespace kvsim {

/// One query head's attention at one step, with the tokens that were there before it in the order
/// of a BudgetStack.
struct StackedStep {
  const HeadAttention& head;
  int row;
  int step;
  std::span<const std::int32_t> order;  ///< [step]
  std::span<const float> weight;        ///< exp(l - max l), parallel to the order
};

/// Differences of the outputs of the caches of some budgets from the full one, one step at a time
/// and in fp64: for steps at which PrefixDistances are not enough.
class ExactPrefixes {
 public:
  /// `unit` has to outlive the object. Budgets are ascending.
  ExactPrefixes(const Unit& unit, std::vector<int> budgets)
      : unit_(unit), budgets_(std::move(budgets)), difference_(budgets_.size()) {}

  /// |o - o'| of the first `count` budgets, all of which lack something.
  std::span<const double> all(const StackedStep& step, std::size_t count);

  /// The same where the cache holds less than kLeastWeightSum: its weights are then taken against
  /// its own largest logit.
  std::span<const double> rescued(const StackedStep& step, std::size_t count);

 private:
  void sum_weights(float own, std::span<const float> weight, std::size_t count);
  void sum_upwards(float own, std::span<const float> weight, std::size_t from, std::size_t to);
  void sum_downwards(std::size_t from, std::size_t to);
  std::size_t weigh_again(std::size_t count);
  void add_values_of(std::span<const float> weight, std::size_t segment);
  void note(std::size_t budget, double weight);
  std::size_t begin_of(std::size_t segment) const {
    return segment == 0 ? 0 : budgets_[segment - 1];
  }

  const Unit& unit_;
  std::vector<int> budgets_;
  std::vector<double> difference_;  // per budget

  // Of the step at hand. Segment i of the order holds what budget i has and budget i - 1 does not;
  // the last one, what no budget has.
  const StackedStep* at_ = nullptr;
  std::vector<double> segment_;    // sums of weights
  std::vector<double> kept_;       // per budget, the step's own token included
  std::vector<double> missing_;    // per budget, against the largest logit of all
  std::vector<float> reweighted_;  // against the largest logit of some prefix of the order
  Eigen::RowVectorXd sum_;         // of weighted values
};

}  // namespace kvsim
