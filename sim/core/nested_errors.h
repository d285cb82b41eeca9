#pragma once

#include <map>
#include <span>
#include <vector>

#include "sim/core/curve.h"

namespace kvsim {

/// One query head's attention at one step, with the tokens that were there before it in the order
/// of a BudgetStack.
struct StackedAttention {
  const HeadAttention& head;
  int row;
  int step;
  double longest_value;                 ///< |v_j|, of tokens up to the step
  std::span<const std::int32_t> order;  ///< [step]
  std::span<const float> weight;        ///< exp(l - max l), parallel to the order
};

/// Output errors of the caches of some budgets, which hold more and more of one order of tokens:
/// weighted values are summed once from one budget to the next.
class NestedErrors {
 public:
  /// `values` are those of the unit; both have to outlive the object. Budgets are ascending; with
  /// none the object does nothing.
  NestedErrors(const Unit& unit, const MatrixDouble& values, std::vector<int> budgets);

  void add(const StackedAttention& attention);

  /// Over `count` measurements, of which those that were not added have error 0.
  std::map<int, OutputErrors> finish(std::size_t count) &&;

 private:
  /// What is known of one budget.
  struct Record {
    std::vector<float> errors;
    double error = 0;  // sums
    double bound = 0;
    std::int64_t violations = 0;
  };

  void sum_weights(float own, std::span<const float> weight, std::size_t count);
  void sum_upwards(float own, std::span<const float> weight, std::size_t from, std::size_t to);
  void sum_downwards(std::size_t from, std::size_t to);
  std::size_t weigh_again(std::size_t count);
  void add_values(std::span<const float> weight, std::size_t segment);
  double distance(double weight) const;
  void note(std::size_t budget, double difference);
  std::size_t begin_of(std::size_t segment) const {
    return segment == 0 ? 0 : budgets_[segment - 1];
  }

  const Unit& unit_;
  const MatrixDouble& values_;
  std::vector<int> budgets_;
  std::vector<Record> records_;  // parallel to the budgets

  // Of the attention at hand. Segment i of the order holds what budget i has and budget i - 1 does
  // not; the last one, what no budget has.
  const StackedAttention* at_ = nullptr;
  double norm_ = 0;                    // |o|
  std::vector<double> segment_;        // sums of weights
  std::vector<double> kept_;           // per budget, the step's own token included
  std::vector<double> missing_;        // per budget, against the largest logit of all
  std::vector<float> reweighted_;      // against the largest logit of some prefix of the order
  Eigen::RowVectorXd sum_;             // of weighted values
  std::vector<std::int32_t> present_;  // tokens of a segment with a weight above 0
  std::vector<double> present_weight_;
};

}  // namespace kvsim
