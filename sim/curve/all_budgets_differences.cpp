#include <algorithm>

#include "sim/curve/block_differences.h"

namespace kvsim {

// kMaxTokensPerSum places at a time for all steps: the orders of the steps differ little, so the
// values stay in the processor's cache.
void AllBudgetsDifferences::compute(AttentionBlock& block, int head,
                                    const BlockInStackOrder& ordered, const BlockWeights& weights,
                                    std::span<const StepDoubles>) {
  const int num_places = ordered.num_places();
  clear_squares(block, ordered);
  start_rows(block, head, ordered);
  const auto num_tokens = [&](int row) { return static_cast<int>(ordered.order[row].size()); };
  for (int begin = 0; begin < num_places; begin += kMaxTokensPerSum) {
    for (int row = 0; row < block.num_steps; ++row) {
      const int end =
          std::min({begin + kMaxTokensPerSum, weights.half_budget[row], num_tokens(row)});
      add_places(ordered, head, row, begin, end, true);
    }
  }
  for (int row = 0; row < block.num_steps; ++row) {
    std::fill_n(sum_.row(row), values_.stride(), 0.0F);
    squares_.row(num_tokens(row))[row] = 0;
  }
  for (int end = num_places; end > 0; end = (end - 1) / kMaxTokensPerSum * kMaxTokensPerSum) {
    const int first = (end - 1) / kMaxTokensPerSum * kMaxTokensPerSum;
    for (int row = 0; row < block.num_steps; ++row) {
      const int begin = std::max(first, weights.half_budget[row]);
      add_places(ordered, head, row, begin, std::min(end, num_tokens(row)), false);
    }
  }
}

/// Starts the sum of each row with what every budget keeps: the step's own token and a sink.
void AllBudgetsDifferences::start_rows(const AttentionBlock& block, int head,
                                       const BlockInStackOrder& ordered) {
  const HeadAttention& full = block.heads[head];
  output_.resize(kBlockSteps, values_.stride());
  sum_.resize(kBlockSteps, values_.stride());
  for (int row = 0; row < block.num_steps; ++row) {
    if (ordered.order[row].empty()) continue;
    const std::int32_t step = block.first_step + row;
    values_.convert(full.output.row(row), output_.row(row));
    std::fill_n(sum_.row(row), values_.stride(), 0.0F);
    if (const double sink = full.sink_weight[row]; sink > 0) {
      // The sink's value of 0, less the output.
      const Eigen::RowVectorXd away = -full.output.row(row) / values_.scale();
      Eigen::Map<Eigen::RowVectorXf>(sum_.row(row), away.size()) = (sink * away).cast<float>();
    }
    float square[kMaxTokensPerSum];
    add_running_squares(values_.weighted({&step, 1}, &full.weight(row, step)), true,
                        output_.row(row), sum_.row(row), square);
  }
}

/// Adds the tokens at places [begin, end). Budget B keeps the places below B.
void AllBudgetsDifferences::add_places(const BlockInStackOrder& ordered, int head, int row,
                                       int begin, int end, bool upwards) {
  if (begin >= end) return;
  const auto order = std::span(ordered.order[row]).subspan(begin, end - begin);
  float square[kMaxTokensPerSum];
  add_running_squares(values_.weighted(order, ordered.heads[head].weight_by_place.row(begin) + row),
                      upwards, output_.row(row), sum_.row(row), square);
  const int first = upwards ? begin + 1 : begin;
  for (int i = 0; i < end - begin; ++i) squares_.row(first + i)[row] = square[i];
}

}  // namespace kvsim
