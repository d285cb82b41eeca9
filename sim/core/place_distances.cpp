#include <algorithm>

#include "sim/core/prefix_distances.h"

namespace kvsim {

// Some places are done for all steps before the next ones: the steps' orders differ little, so that
// values stay at hand.
void PlaceDistances::compute(AttentionBlock& block, int head, const StackedBlock& stacked,
                             const BlockWeights& weights, std::span<const StepDoubles>) {
  const int num_places = block.first_step + block.num_steps;
  clear_squares(block, stacked);
  set_rows(block, head, stacked);
  const auto num_tokens = [&](int row) { return static_cast<int>(stacked.order[row].size()); };
  for (int begin = 0; begin < num_places; begin += kMostPlaces) {
    for (int row = 0; row < block.num_steps; ++row) {
      const int end = std::min({begin + kMostPlaces, weights.middle[row], num_tokens(row)});
      add(stacked, head, row, begin, end, true);
    }
  }
  for (int row = 0; row < block.num_steps; ++row) {
    std::fill_n(sum_.row(row), values_.stride(), 0.0F);
    squares_.row(num_tokens(row))[row] = 0;
  }
  for (int end = num_places; end > 0; end = (end - 1) / kMostPlaces * kMostPlaces) {
    const int first = (end - 1) / kMostPlaces * kMostPlaces;
    for (int row = 0; row < block.num_steps; ++row) {
      const int begin = std::max(first, weights.middle[row]);
      add(stacked, head, row, begin, std::min(end, num_tokens(row)), false);
    }
  }
}

/// Each row starts with its own token, which every budget keeps.
void PlaceDistances::set_rows(const AttentionBlock& block, int head, const StackedBlock& stacked) {
  const HeadAttention& full = block.heads[head];
  output_.resize(kBlockSteps, values_.stride());
  sum_.resize(kBlockSteps, values_.stride());
  for (int row = 0; row < block.num_steps; ++row) {
    if (stacked.order[row].empty()) continue;
    const std::int32_t step = block.first_step + row;
    values_.convert(full.output.row(row), output_.row(row));
    std::fill_n(sum_.row(row), values_.stride(), 0.0F);
    float square[kMostPlaces];
    walk(values_.weighted({&step, 1}, &full.weight(row, step)), true, output_.row(row),
         sum_.row(row), square);
  }
}

/// Adds the tokens at some places. A budget ends before the place of its number.
void PlaceDistances::add(const StackedBlock& stacked, int head, int row, int begin, int end,
                         bool upwards) {
  if (begin >= end) return;
  const auto order = std::span(stacked.order[row]).subspan(begin, end - begin);
  float square[kMostPlaces];
  walk(values_.weighted(order, stacked.heads[head].by_place.row(begin) + row), upwards,
       output_.row(row), sum_.row(row), square);
  const int first = upwards ? begin + 1 : begin;
  for (int i = 0; i < end - begin; ++i) squares_.row(first + i)[row] = square[i];
}

}  // namespace kvsim
