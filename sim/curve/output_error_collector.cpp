#include "sim/curve/output_error_collector.h"

#include <algorithm>
#include <limits>

#include "sim/attention/rescaled_step.h"
#include "sim/kernels/percentile.h"
#include "sim/kernels/tolerances.h"
#include "sim/outputs/output_difference.h"

namespace kvsim {
namespace {

// A step is computed again in fp64 if some |sum of weighted values| is less than this share of its
// expected size for independent values, over the square root of their dimensions. Rounding is up to
// 1e-6 of the expected size, so it might exceed 1e-5 of the sum.
constexpr double kInaccurateShare = 0.1;

// Differences below this share of the output's norm do not matter.
constexpr double kNegligible = 1e-13;

// As in set_error(): avoids a division by 0 where the full output is exactly 0.
double norm_of(const HeadAttention& head, int row) {
  return std::max(head.output_norm[row], std::numeric_limits<double>::min());
}

}  // namespace

OutputErrorCollector::OutputErrorCollector(const Unit& unit, const MeanCentredValues* values,
                                           const std::vector<int>& budgets, int first_measured,
                                           const Paging& paging)
    : values_(values),
      budgets_(budgets),
      paging_(paging),
      records_(budgets.size()),
      exact_differences_(unit, budgets) {
  if (budgets.empty()) return;
  if (all_budgets_are_cheaper(budgets)) {
    differences_ = std::make_unique<AllBudgetsDifferences>(*values);
  } else {
    differences_ = std::make_unique<FewBudgetsDifferences>(*values, budgets);
  }
  missing_weight_.reserve(budgets_.size());
  missing_squares_.reserve(budgets_.size());
  difference_.reserve(budgets_.size());
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    const int steps = unit.num_tokens() - std::max(budgets_[i], first_measured);
    records_[i].errors.reserve(static_cast<std::size_t>(std::max(0, steps)) * unit.query.size());
  }
}

void OutputErrorCollector::add(const AttentionBlock& block, int row, int head,
                               const StackOrder& step) {
  if (num_incomplete(block.first_step + block.num_steps - 1) == 0) return;
  if (!has_steps_) ordered_.reset(block, num_places(block.first_step + block.num_steps));
  has_steps_ = true;
  ordered_.add(row, head, step);
}

void OutputErrorCollector::finish_block(AttentionBlock& block) {
  if (!has_steps_) return;
  has_steps_ = false;
  ordered_.transpose();
  for (int head = 0; head < static_cast<int>(block.heads.size()); ++head) {
    sum_weights(block, head);
    differences_->compute(block, head, ordered_, weights_, missing_weight_);
    compute_differences(block, head);
    for (int row = 0; row < block.num_steps; ++row) recompute_inaccurate(block, head, row);
    record_errors(block, head);
  }
}

/// The places of so many tokens: whole pages.
int OutputErrorCollector::num_places(int num_tokens) const {
  return paging_.pages_for(num_tokens) * paging_.size;
}

/// How many budgets, smallest first, miss a token at a step: those below the number of places of
/// its earlier tokens.
std::size_t OutputErrorCollector::num_incomplete(int step) const {
  return std::lower_bound(budgets_.begin(), budgets_.end(), num_places(step)) - budgets_.begin();
}

void OutputErrorCollector::sum_weights(const AttentionBlock& block, int index) {
  const HeadAttention& head = block.heads[index];
  weights_ = {};
  weights_.total.fill(1);
  for (int row = 0; row < block.num_steps; ++row) {
    if (ordered_.order[row].empty()) continue;
    weights_.newest[row] = head.weight(row, block.first_step + row);
    weights_.sink[row] = head.sink_weight[row];
    weights_.total[row] = head.weight_sum[row];
  }
  const AlignedRows& weight = ordered_.heads[index].weight_by_place;
  int end = ordered_.num_places();
  find_half_budgets(weight.row(0), end, weights_);
  missing_weight_.resize(num_incomplete(block.first_step + block.num_steps - 1));
  missing_squares_.resize(missing_weight_.size());
  StepDoubles missing{};
  StepDoubles squares{};
  for (std::size_t i = missing_weight_.size(); i-- > 0; end = budgets_[i]) {
    add_missing(weight.row(budgets_[i]), end - budgets_[i], missing, squares);
    missing_weight_[i] = missing;
    missing_squares_[i] = squares;
  }
}

void OutputErrorCollector::compute_differences(const AttentionBlock& block, int index) {
  const double dims = static_cast<double>(values_->mean().size());
  DifferenceScale scale{
      values_->scale(), std::pow(kInaccurateShare * MeanCentredValues::kLongestNorm, 2) / dims, {}};
  for (int row = 0; row < block.num_steps; ++row) {
    const double norm = norm_of(block.heads[index], row);
    scale.relevant_above[row] =
        std::pow(kNegligible * norm / (MeanCentredValues::kLongestNorm * values_->scale()), 2);
  }
  difference_.resize(missing_weight_.size());
  inaccurate_.fill(0);
  for (std::size_t i = 0; i < missing_weight_.size(); ++i) {
    take_differences(weights_, {budgets_[i], missing_weight_[i], missing_squares_[i]},
                     differences_->squares(budgets_[i]), scale, difference_[i], inaccurate_);
  }
}

void OutputErrorCollector::recompute_inaccurate(const AttentionBlock& block, int index, int row) {
  const int step = block.first_step + row;
  const std::size_t count = ordered_.order[row].empty() ? 0 : num_incomplete(step);
  std::size_t low = 0;
  while (low < count && weights_.total[row] - missing_weight_[low][row] < kMinWeightSum) ++low;
  if (inaccurate_[row] == 0 && low == 0) return;
  const StepInStackOrder ordered{block.heads[index], index, row, step, ordered_.step(row, index)};
  const auto differences = inaccurate_[row] != 0
                               ? exact_differences_.compute(ordered, count)
                               : exact_differences_.compute_rescaled(ordered, low);
  for (std::size_t i = 0; i < differences.size(); ++i) difference_[i][row] = differences[i];
}

void OutputErrorCollector::record_errors(const AttentionBlock& block, int index) {
  const HeadAttention& head = block.heads[index];
  ErrorScale scale{};
  int first_measured = block.num_steps;
  for (int row = block.num_steps - 1; row >= 0; --row) {
    if (ordered_.order[row].empty()) continue;
    first_measured = row;
    const double norm = norm_of(head, row);
    const double longest_value = block.longest_value[row] / norm;
    scale.error[row] = 1 / norm;
    scale.max_bound[row] = 2 * longest_value;
    scale.bound[row] = scale.max_bound[row] / head.weight_sum[row];
    scale.slack[row] = kDoubleRounding * longest_value;
  }
  for (std::size_t i = 0; i < missing_weight_.size(); ++i) {
    float errors[kBlockSteps];
    Record& record = records_[i];
    add_errors(difference_[i], missing_weight_[i], scale, errors, record.sums);
    const int first = std::max(first_measured, budgets_[i] + 1 - block.first_step);
    record.errors.insert(record.errors.end(), errors + first, errors + block.num_steps);
  }
}

std::map<int, OutputErrors> OutputErrorCollector::finish(std::size_t count) && {
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
    errors.max = record.sums.max_error;
    record.errors = {};
  }
  return all;
}

}  // namespace kvsim
