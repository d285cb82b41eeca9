#include "sim/core/prefix_distances.h"

#include <algorithm>

namespace kvsim {

void PrefixDistances::clear_squares(const AttentionBlock& block, const StackedBlock& stacked) {
  const auto num_places = static_cast<std::size_t>(block.first_step + block.num_steps);
  squares_.resize(num_places + 1, kBlockSteps);
  const auto measured = std::count_if(stacked.order.begin(), stacked.order.end(),
                                      [](const auto& order) { return !order.empty(); });
  const auto first = static_cast<std::size_t>(measured == kBlockSteps ? block.first_step : 0);
  std::fill(squares_.row(first), squares_.row(num_places + 1), 0.0F);
}

// Stopping at budgets takes about as long as going on for a few places.
bool are_dense(std::span<const int> budgets) {
  return !budgets.empty() && 4 * static_cast<int>(budgets.size()) > budgets.back();
}

}  // namespace kvsim
