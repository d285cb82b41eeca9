#include "traces/selected_tokens.h"

#include <algorithm>

namespace kvsim {

void SelectedTokens::add(std::span<const std::int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ends_.push_back(tokens_.size());
}

bool SelectedTokens::contains(int step, std::int32_t token) const {
  return std::ranges::binary_search(at(step), token);
}

int SelectedTokens::most() const {
  std::size_t most = 0;
  for (int step = 0; step < num_steps(); ++step) most = std::max(most, at(step).size());
  return static_cast<int>(most);
}

}  // namespace kvsim
