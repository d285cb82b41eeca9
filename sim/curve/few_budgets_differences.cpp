#include <algorithm>

#include "sim/curve/block_differences.h"
#include "sim/kernels/curve_kernels.h"

namespace kvsim {
namespace {

// Steps whose segment sums are computed together: few enough for the sums to stay in the
// processor's cache, enough to read each value for several steps.
constexpr int kRowsAtOnce = 8;

}  // namespace

void FewBudgetsDifferences::compute(AttentionBlock& block, int index,
                                    const BlockInStackOrder& ordered, const BlockWeights& weights,
                                    std::span<const StepDoubles> missing) {
  HeadAttention& head = block.heads[index];
  head.output.setZero(block.num_steps, values_.mean().size());
  set_boundaries(ordered.num_places());
  clear_squares(block, ordered);
  sums_.resize((boundaries_.size() - 1) * kRowsAtOnce, values_.stride());
  for (int first = 0; first < block.num_steps; first += kRowsAtOnce) {
    const int end = std::min(first + kRowsAtOnce, block.num_steps);
    for (std::size_t segment = 0; segment + 1 < boundaries_.size(); ++segment) {
      for (int row = first; row < end; ++row) {
        sum_segment(ordered.order[row], ordered.heads[index].weight_by_place.row(0) + row, segment,
                    sums_.row(segment * kRowsAtOnce + row - first));
      }
    }
    for (int row = first; row < end; ++row) {
      if (ordered.order[row].empty()) continue;
      const auto num_places = static_cast<int>(ordered.order[row].size());
      collect_segments(block.first_step + row, num_places, weights.newest[row], weights.sink[row],
                       row - first);
      output_.assign(own_value_.begin(), own_value_.end());
      for (const float* sums : segment_sums_) add_sums(sums, values_.stride(), output_.data());
      for (double& x : output_) x /= weights.total[row];
      head.output.row(row) =
          values_.mean() +
          values_.scale() * Eigen::Map<Eigen::RowVectorXd>(output_.data(), values_.mean().size());
      compute_row(row, num_places, weights.total[row], missing);
    }
  }
  set_output_norms(head);
}

void FewBudgetsDifferences::set_boundaries(int num_places) {
  boundaries_.assign(1, 0);
  auto budget = budgets_.begin();
  while (boundaries_.back() < num_places) {
    while (budget != budgets_.end() && *budget <= boundaries_.back()) ++budget;
    int next = std::min(boundaries_.back() + kMaxTokensPerSum, num_places);
    if (budget != budgets_.end()) next = std::min(next, *budget);
    boundaries_.push_back(next);
  }
}

void FewBudgetsDifferences::sum_segment(std::span<const std::int32_t> order, const float* weight,
                                        std::size_t segment, float* sum) const {
  const auto begin = std::min(static_cast<std::size_t>(boundaries_[segment]), order.size());
  const auto end = std::min(static_cast<std::size_t>(boundaries_[segment + 1]), order.size());
  sum_products(values_.weighted(order.subspan(begin, end - begin), weight + begin * kBlockSteps),
               sum);
}

void FewBudgetsDifferences::collect_segments(std::int32_t step, int num_places, double own,
                                             double sink, int row) {
  own_value_.resize(values_.stride());
  std::transform(values_.row(step), values_.row(step) + own_value_.size(), own_value_.begin(),
                 [&](float x) { return own * x; });
  if (sink > 0) {
    Eigen::Map<Eigen::RowVectorXd>(own_value_.data(), values_.sink().size()) +=
        sink * values_.sink();
  }
  segment_sums_.clear();
  for (std::size_t segment = 0;
       segment + 1 < boundaries_.size() && boundaries_[segment] < num_places; ++segment) {
    segment_sums_.push_back(sums_.row(segment * kRowsAtOnce + row));
  }
}

// With N and W the sums of weighted values and of weights over the kept or the missing tokens,
// |o - o'| W_kept = |N_kept - W_kept o| = |N_missing - W_missing o|.
void FewBudgetsDifferences::compute_row(int row, int num_places, double total,
                                        std::span<const StepDoubles> missing) {
  const auto count =
      std::lower_bound(budgets_.begin(), budgets_.end(), num_places) - budgets_.begin();
  const auto keeps_half = [&](std::ptrdiff_t i) { return 2 * missing[i][row] <= total; };
  const auto note = [&](std::ptrdiff_t i, double weight) {
    squares_.row(budgets_[i])[row] =
        static_cast<float>(squared_distance(sum_.data(), weight, output_.data(), sum_.size()));
  };
  sum_.assign(own_value_.begin(), own_value_.end());
  std::ptrdiff_t next = 0;
  for (std::size_t i = 0; i < segment_sums_.size() && next < count && !keeps_half(next); ++i) {
    add_sums(segment_sums_[i], sum_.size(), sum_.data());
    if (boundaries_[i + 1] == budgets_[next]) {
      note(next, total - missing[next][row]);
      ++next;
    }
  }
  sum_.assign(own_value_.size(), 0);
  std::ptrdiff_t last = count - 1;
  for (std::size_t i = segment_sums_.size(); i > 0 && last >= next; --i) {
    add_sums(segment_sums_[i - 1], sum_.size(), sum_.data());
    if (boundaries_[i - 1] == budgets_[last]) {
      note(last, missing[last][row]);
      --last;
    }
  }
}

}  // namespace kvsim
