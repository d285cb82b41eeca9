#include <algorithm>

#include "sim/core/curve_kernels.h"
#include "sim/core/prefix_distances.h"

namespace kvsim {
namespace {

// Sums of segments are kept for so many steps: few enough to stay at hand, many enough to make use
// of values that are.
constexpr int kRowsAtOnce = 8;

}  // namespace

void SegmentDistances::compute(AttentionBlock& block, int index, const StackedBlock& stacked,
                               const BlockWeights& weights, std::span<const StepDoubles> missing) {
  HeadAttention& head = block.heads[index];
  head.output.setZero(block.num_steps, values_.mean().size());
  cut(block.first_step + block.num_steps);
  clear_squares(block, stacked);
  sums_.resize((cuts_.size() - 1) * kRowsAtOnce, values_.stride());
  for (int first = 0; first < block.num_steps; first += kRowsAtOnce) {
    const int end = std::min(first + kRowsAtOnce, block.num_steps);
    for (std::size_t segment = 0; segment + 1 < cuts_.size(); ++segment) {
      for (int row = first; row < end; ++row) {
        sum_segment(stacked.order[row], stacked.heads[index].by_place.row(0) + row, segment,
                    sums_.row(segment * kRowsAtOnce + row - first));
      }
    }
    for (int row = first; row < end; ++row) {
      if (stacked.order[row].empty()) continue;
      take_sums(block.first_step + row, weights.own[row], row - first);
      output_.assign(own_.begin(), own_.end());
      for (const float* sums : segments_) add_sums(sums, values_.stride(), output_.data());
      for (double& x : output_) x /= weights.total[row];
      head.output.row(row) =
          values_.mean() +
          values_.unit() * Eigen::Map<Eigen::RowVectorXd>(output_.data(), values_.mean().size());
      measure(row, block.first_step + row, weights.total[row], missing);
    }
  }
  measure_outputs(head);
}

void SegmentDistances::cut(int num_places) {
  cuts_.assign(1, 0);
  auto budget = budgets_.begin();
  while (cuts_.back() < num_places) {
    while (budget != budgets_.end() && *budget <= cuts_.back()) ++budget;
    int next = std::min(cuts_.back() + kMostPlaces, num_places);
    if (budget != budgets_.end()) next = std::min(next, *budget);
    cuts_.push_back(next);
  }
}

void SegmentDistances::sum_segment(std::span<const std::int32_t> order, const float* weight,
                                   std::size_t segment, float* sum) const {
  const auto begin = std::min(static_cast<std::size_t>(cuts_[segment]), order.size());
  const auto end = std::min(static_cast<std::size_t>(cuts_[segment + 1]), order.size());
  sum_products(values_.weighted(order.subspan(begin, end - begin), weight + begin * kBlockSteps),
               sum);
}

void SegmentDistances::take_sums(std::int32_t step, double own, int row) {
  own_.resize(values_.stride());
  std::transform(values_.row(step), values_.row(step) + own_.size(), own_.begin(),
                 [&](float x) { return own * x; });
  segments_.clear();
  for (std::size_t segment = 0; segment + 1 < cuts_.size() && cuts_[segment] < step; ++segment) {
    segments_.push_back(sums_.row(segment * kRowsAtOnce + row));
  }
}

// With N, W the sums of weighted values and of weights, over what is kept and what is missing,
// |o - o'| W_kept = |N_kept - W_kept o| = |N_missing - W_missing o|.
void SegmentDistances::measure(int row, int step, double total,
                               std::span<const StepDoubles> missing) {
  const auto count = std::lower_bound(budgets_.begin(), budgets_.end(), step) - budgets_.begin();
  const auto keeps_half = [&](std::ptrdiff_t i) { return 2 * missing[i][row] <= total; };
  const auto note = [&](std::ptrdiff_t i, double weight) {
    squares_.row(budgets_[i])[row] =
        static_cast<float>(squared_distance(sum_.data(), weight, output_.data(), sum_.size()));
  };
  sum_.assign(own_.begin(), own_.end());
  std::ptrdiff_t next = 0;
  for (std::size_t i = 0; i < segments_.size() && next < count && !keeps_half(next); ++i) {
    add_sums(segments_[i], sum_.size(), sum_.data());
    if (cuts_[i + 1] == budgets_[next]) {
      note(next, total - missing[next][row]);
      ++next;
    }
  }
  sum_.assign(own_.size(), 0);
  std::ptrdiff_t last = count - 1;
  for (std::size_t i = segments_.size(); i > 0 && last >= next; --i) {
    add_sums(segments_[i - 1], sum_.size(), sum_.data());
    if (cuts_[i - 1] == budgets_[last]) {
      note(last, missing[last][row]);
      --last;
    }
  }
}

}  // namespace kvsim
