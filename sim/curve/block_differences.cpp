#include "sim/curve/block_differences.h"

#include <algorithm>

namespace kvsim {

void BlockDifferences::clear_squares(const AttentionBlock& block,
                                     const BlockInStackOrder& ordered) {
  const auto num_places = static_cast<std::size_t>(ordered.num_places());
  squares_.resize(num_places + 1, kBlockSteps);
  const auto measured = std::count_if(ordered.order.begin(), ordered.order.end(),
                                      [](const auto& order) { return !order.empty(); });
  const auto first = static_cast<std::size_t>(measured == kBlockSteps ? block.first_step : 0);
  std::fill(squares_.row(first), squares_.row(num_places + 1), 0.0F);
}

// A stop at a budget takes about as long as four places.
bool all_budgets_are_cheaper(std::span<const int> budgets) {
  return !budgets.empty() && 4 * static_cast<int>(budgets.size()) > budgets.back();
}

}  // namespace kvsim
