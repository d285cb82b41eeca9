#include "oracle/lookahead/lookahead_cache.h"

#include <algorithm>

namespace kvsim {
namespace {

/// Steps that have been received when a cache evicts: its window, and the rest of a block.
std::size_t steps_ahead(int window) {
  constexpr auto kSteps = std::size_t{kBlockSteps};
  return (static_cast<std::size_t>(window) + kSteps - 1) / kSteps * kSteps + kSteps;
}

/// The most tokens that a cache holds, with those that arrive in the steps ahead.
std::size_t most_slots(const std::vector<int>& evictions, std::size_t ahead) {
  std::size_t held = 0;
  std::size_t most = 0;
  for (const int count : evictions) {
    most = std::max(most, ++held);
    held -= static_cast<std::size_t>(count);
  }
  return std::min(most + ahead, evictions.size());
}

int first_above_0(const std::vector<int>& counts) {
  const auto is_above = [](int count) { return count > 0; };
  return static_cast<int>(std::find_if(counts.begin(), counts.end(), is_above) - counts.begin());
}

}  // namespace

LookaheadCache::LookaheadCache(const Unit& unit, const std::vector<int>& evictions, int window)
    : window_(std::min(window, unit.num_tokens())),
      first_eviction_(first_above_0(evictions)),
      num_steps_(steps_ahead(window_)),
      held_(unit.value, most_slots(evictions, num_steps_)),
      change_(held_.capacity()),
      schedule_(evictions.size(), unit.num_tokens()) {}

LookaheadCache::LookaheadCache(const LookaheadCache& other)
    : window_(other.window_),
      first_eviction_(other.first_eviction_),
      num_steps_(other.num_steps_),
      received_(other.received_),
      entered_(other.entered_),
      held_(other.held_),
      cost_(other.cost_->copy()),
      change_(other.change_),
      schedule_(other.schedule_) {}

void LookaheadCache::receive(const AttentionBlock& block) {
  received_ = block.first_step + block.num_steps;
  if (received_ <= first_eviction_ + 1) return;
  arrive(received_ - 1);
  cost_->enter(held_, block, std::max(0, first_eviction_ + 1 - block.first_step));
}

void LookaheadCache::arrive(int step) {
  for (; entered_ <= step; ++entered_) held_.add(entered_);
}

const std::vector<double>& LookaheadCache::changes(int step) {
  std::fill(change_.begin(), change_.end(), 0);
  cost_->add_changes(held_, step + 1, last_of_window(step), change_.data());
  return change_;
}

void LookaheadCache::evict(std::size_t slot, int step) {
  schedule_[held_.token(slot)] = step;
  cost_->leave(held_, slot, step + 1, received_ - 1);
  held_.remove(slot);
}

}  // namespace kvsim
