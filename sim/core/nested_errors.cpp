#include "sim/core/nested_errors.h"

#include <algorithm>
#include <limits>

#include "sim/core/output_difference.h"
#include "sim/core/percentile.h"
#include "sim/core/rescued_step.h"

namespace kvsim {
namespace {

// A distance is computed again if it is less than this share of what a sum of as many independent
// values tends to be, over the square root of their dimensions: rounding, which is up to 1e-6 of
// such a sum but in any direction, might then be 1e-5 of the distance.
constexpr double kDoubtful = 0.1;

// Relative to the output: differences that are less do not matter.
constexpr double kLeast = 1e-13;

// As in set_error(): a head that outputs exactly nothing has no relative error.
double norm_of(const HeadAttention& head, int row) {
  return std::max(head.output_norm[row], std::numeric_limits<double>::min());
}

}  // namespace

NestedErrors::NestedErrors(const Unit& unit, const CentredValues* values,
                           const std::vector<int>& budgets, int first_measured)
    : values_(values), budgets_(budgets), records_(budgets.size()), exact_(unit, budgets) {
  if (budgets.empty()) return;
  if (are_dense(budgets)) {
    distances_ = std::make_unique<PlaceDistances>(*values);
  } else {
    distances_ = std::make_unique<SegmentDistances>(*values, budgets);
  }
  missing_.reserve(budgets_.size());
  missing_squares_.reserve(budgets_.size());
  difference_.reserve(budgets_.size());
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    const int steps = unit.num_tokens() - std::max(budgets_[i], first_measured);
    records_[i].errors.reserve(static_cast<std::size_t>(std::max(0, steps)) * unit.query.size());
  }
}

void NestedErrors::add(const AttentionBlock& block, int row, int head,
                       std::span<const std::int32_t> order, std::span<const float> weight) {
  if (budgets_.empty()) return;
  if (!is_in_block_) stacked_.reset(block);
  is_in_block_ = true;
  stacked_.add(row, head, order, weight);
}

void NestedErrors::finish_block(AttentionBlock& block) {
  if (!is_in_block_) return;
  is_in_block_ = false;
  if (num_lacking(block.first_step + block.num_steps - 1) == 0) return;
  stacked_.arrange();
  for (int head = 0; head < static_cast<int>(block.heads.size()); ++head) {
    sum_weights(block, head);
    distances_->compute(block, head, stacked_, weights_, missing_);
    take_all_differences(block, head);
    for (int row = 0; row < block.num_steps; ++row) measure_exactly(block, head, row);
    note(block, head);
  }
}

/// Of the budgets, those that the tokens up to a step do not fit in come first.
std::size_t NestedErrors::num_lacking(int step) const {
  return std::lower_bound(budgets_.begin(), budgets_.end(), step) - budgets_.begin();
}

void NestedErrors::sum_weights(const AttentionBlock& block, int index) {
  const HeadAttention& head = block.heads[index];
  weights_ = {};
  weights_.total.fill(1);
  for (int row = 0; row < block.num_steps; ++row) {
    if (stacked_.order[row].empty()) continue;
    weights_.own[row] = head.weight(row, block.first_step + row);
    weights_.total[row] = head.weight_sum[row];
  }
  const AlignedRows& weight = stacked_.heads[index].by_place;
  int end = block.first_step + block.num_steps;
  find_middles(weight.row(0), end, weights_);
  missing_.resize(num_lacking(end - 1));
  missing_squares_.resize(missing_.size());
  StepDoubles missing{};
  StepDoubles squares{};
  for (std::size_t i = missing_.size(); i-- > 0; end = budgets_[i]) {
    add_missing(weight.row(budgets_[i]), end - budgets_[i], missing, squares);
    missing_[i] = missing;
    missing_squares_[i] = squares;
  }
}

void NestedErrors::take_all_differences(const AttentionBlock& block, int index) {
  const double dims = static_cast<double>(values_->mean().size());
  DifferenceScale scale{
      values_->unit(), std::pow(kDoubtful * CentredValues::kLongest, 2) / dims, {}};
  for (int row = 0; row < block.num_steps; ++row) {
    const double norm = norm_of(block.heads[index], row);
    scale.least[row] = std::pow(kLeast * norm / (CentredValues::kLongest * values_->unit()), 2);
  }
  difference_.resize(missing_.size());
  doubtful_.fill(0);
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    take_differences(weights_, {budgets_[i], missing_[i], missing_squares_[i]},
                     distances_->squares(budgets_[i]), scale, difference_[i], doubtful_);
  }
}

void NestedErrors::measure_exactly(const AttentionBlock& block, int index, int row) {
  const int step = block.first_step + row;
  const std::size_t count = stacked_.order[row].empty() ? 0 : num_lacking(step);
  std::size_t low = 0;
  while (low < count && weights_.total[row] - missing_[low][row] < kLeastWeightSum) ++low;
  if (doubtful_[row] == 0 && low == 0) return;
  const auto& order = stacked_.order[row];
  const StackedStep stacked{block.heads[index],
                            row,
                            step,
                            order,
                            {stacked_.heads[index].weight.row(row).data(), order.size()}};
  const auto differences =
      doubtful_[row] != 0 ? exact_.all(stacked, count) : exact_.rescued(stacked, low);
  for (std::size_t i = 0; i < differences.size(); ++i) difference_[i][row] = differences[i];
}

void NestedErrors::note(const AttentionBlock& block, int index) {
  const HeadAttention& head = block.heads[index];
  ErrorScale scale{};
  int first_measured = block.num_steps;
  for (int row = block.num_steps - 1; row >= 0; --row) {
    if (stacked_.order[row].empty()) continue;
    first_measured = row;
    const double norm = norm_of(head, row);
    const double longest_value = block.longest_value[row] / norm;
    scale.error[row] = 1 / norm;
    scale.most[row] = 2 * longest_value;
    scale.bound[row] = scale.most[row] / head.weight_sum[row];
    scale.slack[row] = kDoubleRounding * longest_value;
  }
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    float errors[kBlockSteps];
    Record& record = records_[i];
    add_errors(difference_[i], missing_[i], scale, errors, record.sums);
    const int first = std::max(first_measured, budgets_[i] + 1 - block.first_step);
    record.errors.insert(record.errors.end(), errors + first, errors + block.num_steps);
  }
}

std::map<int, OutputErrors> NestedErrors::finish(std::size_t count) && {
  std::map<int, OutputErrors> all;
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    Record& record = records_[i];
    OutputErrors& errors = all[budgets_[i]];
    errors.mean = record.sums.error / static_cast<double>(count);
    errors.bound_mean = record.sums.bound / static_cast<double>(count);
    errors.bound_violations = record.sums.violations;
    const Percentiles percentiles(record.errors, count - record.errors.size());
    errors.p50 = percentiles.at(0.50);
    errors.p95 = percentiles.at(0.95);
    errors.max = record.sums.largest;
    record.errors = {};
  }
  return all;
}

}  // namespace kvsim
