#include "sim/core/slot_cache.h"

#include <algorithm>

#include "sim/core/score_kernels.h"

namespace kvsim {

SlotCache::SlotCache(int num_tokens, int budget, const Rules& rules)
    : budget_(std::min(budget, num_tokens)),
      protect_first_(std::min(rules.protect_first, budget_)),
      protect_newest_(std::min(rules.protect_newest, budget_ - protect_first_)),
      // Where nobody gathers weights by slot, gaps are closed for next to nothing.
      most_slots_per_token_(rules.score->kind == ScoreRule::Kind::newest ? 1 : 2),
      held_(num_tokens),
      evicted_after_(num_tokens, num_tokens) {}

void SlotCache::begin_block(std::int32_t first, int count) {
  if (num_slots_ > most_slots_per_token_ * static_cast<std::size_t>(num_held_)) close_gaps();
  departures_.clear();
  for (int i = 0; i < count; ++i) {
    tokens_.push_back(first + i);
    scores_.push_back(0);
  }
}

void SlotCache::admit() {
  held_.insert(tokens_[num_slots_++]);
  ++num_held_;
}

void SlotCache::evict(int step) {
  const int count = overflow();
  if (count == 0) return;
  const std::size_t begin = protect_first_;
  const std::size_t end = num_slots_ - protect_newest_;
  if (count == 1) {
    remove(begin + lowest(scores().subspan(begin, end - begin)), step);
    return;
  }
  std::vector<std::size_t> candidates;
  for (std::size_t slot = begin; slot < end; ++slot) {
    if (scores_[slot] != kGone) candidates.push_back(slot);
  }
  const auto last = candidates.begin() + std::min<std::ptrdiff_t>(count, std::ssize(candidates));
  std::nth_element(candidates.begin(), last, candidates.end(), [&](std::size_t a, std::size_t b) {
    return scores_[a] != scores_[b] ? scores_[a] < scores_[b] : a < b;
  });
  for (auto slot = candidates.begin(); slot != last; ++slot) remove(*slot, step);
}

void SlotCache::remove(std::size_t slot, int step) {
  const std::int32_t token = tokens_[slot];
  scores_[slot] = kGone;
  held_.erase(token);
  --num_held_;
  evicted_after_[token] = step;
  departures_.push_back({token, step});
}

void SlotCache::close_gaps() {
  std::size_t kept = 0;
  for (std::size_t slot = 0; slot < num_slots_; ++slot) {
    if (scores_[slot] == kGone) continue;
    tokens_[kept] = tokens_[slot];
    scores_[kept++] = scores_[slot];
  }
  tokens_.resize(kept);
  scores_.resize(kept);
  slots_are_tokens_ = slots_are_tokens_ && kept == num_slots_;
  num_slots_ = kept;
}

}  // namespace kvsim
