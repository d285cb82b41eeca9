#include "sim/cache/slot_cache.h"

#include <algorithm>

namespace kvsim {

SlotCache::SlotCache(int num_tokens, int budget, const Rules& rules, const Paging& paging)
    : budget_(std::min(budget, num_tokens)),
      rule_(*rules.score),
      paging_(paging),
      protection_(Protection::of(rules, budget, paging)),
      held_(num_tokens),
      next_queued_(static_cast<std::size_t>(protection_.first)),
      evicted_after_(num_tokens, num_tokens) {}

void SlotCache::begin_block(std::int32_t first, int count) {
  if (num_slots_ > most_slots()) close_gaps();
  evictions_.clear();
  for (int i = 0; i < count; ++i) {
    tokens_.push_back(first + i);
    scores_.push_back(0);
  }
  if (marks_gaps()) gaps_.resize(scores_.size(), 0);
}

// From the first gap that is closed on, weights have to be gathered by slot, which is worth it once
// half of the slots are gaps. Then few gaps are better. Fixed scores gather nothing.
std::size_t SlotCache::most_slots() const {
  const auto held = static_cast<std::size_t>(num_held_);
  return slots_are_tokens_ || has_fixed_scores() ? 2 * held : held + held / 8;
}

void SlotCache::admit() {
  held_.insert(tokens_[num_slots_++]);
  ++num_held_;
}

void SlotCache::score(const ScoredStep& step, std::span<const float> weight, float scale) {
  // Scores of the rule `attention` are not read again, unless they are compared to evict several.
  const bool one_leaves = num_held_ == budget_ + 1 && paging_.is_by_token();
  if (rule_.kind == ScoreRule::Kind::attention && one_leaves) {
    lowest_ = least_attention(weight, scale, gaps_, candidates_begin(), candidates_end());
    return;
  }
  const Slots slots{tokens(), weight, scale, {scores_.data(), num_slots_}};
  lowest_ = update_scores(rule_, step, slots, candidates_begin(), candidates_end());
}

void SlotCache::evict(int step, int most_held) {
  const int count = num_held_ > most_held ? num_held_ - budget_ : 0;
  if (count < 1) return;
  if (!paging_.is_by_token()) return evict_pages(count, step);
  if (has_fixed_scores()) return evict_queued(count, step);
  if (count > 1) return evict_several(count, step);
  if (lowest_.is_tied) ++num_ties_;
  remove(lowest_.slot, step);
}

void SlotCache::evict_queued(int count, int step) {
  for (; next_queued_ < candidates_end(); ++next_queued_) {
    queue_.push({scores_[next_queued_], tokens_[next_queued_]});
  }
  double score = -kEvictedScore;
  std::int64_t num_equal = 0;  // of the last ones evicted
  for (; count > 0 && !queue_.empty(); --count) {
    const auto [next, token] = queue_.lowest();
    queue_.pop();
    num_equal = next == score ? num_equal + 1 : 1;
    score = next;
    remove(slot_of(token), step);
  }
  if (!queue_.empty() && queue_.lowest().score == score) num_ties_ += num_equal;
}

// Tokens often leave in the order in which they came.
std::size_t SlotCache::slot_of(std::int32_t token) {
  std::size_t slot = next_leaving_;
  if (slot >= num_slots_ || tokens_[slot] != token) {
    slot = static_cast<std::size_t>(std::ranges::lower_bound(tokens_, token) - tokens_.begin());
  }
  next_leaving_ = slot + 1;
  return slot;
}

void SlotCache::evict_several(int count, int step) {
  std::vector<std::size_t> candidates;
  for (std::size_t slot = candidates_begin(); slot < candidates_end(); ++slot) {
    if (scores_[slot] != kEvictedScore) candidates.push_back(slot);
  }
  const auto last = candidates.begin() + std::min<std::ptrdiff_t>(count, std::ssize(candidates));
  std::nth_element(candidates.begin(), last, candidates.end(), [&](std::size_t a, std::size_t b) {
    return scores_[a] != scores_[b] ? scores_[a] < scores_[b] : a < b;
  });
  // The highest of the evicted scores; equal scores decide only there.
  double highest = -kEvictedScore;
  for (auto slot = candidates.begin(); slot != last; ++slot) {
    highest = std::max(highest, scores_[*slot]);
  }
  const auto is_highest = [&](std::size_t slot) { return scores_[slot] == highest; };
  if (std::any_of(last, candidates.end(), is_highest)) {
    num_ties_ += std::count_if(candidates.begin(), last, is_highest);
  }
  for (auto slot = candidates.begin(); slot != last; ++slot) remove(*slot, step);
}

void SlotCache::evict_pages(int count, int step) {
  std::vector<PageCandidate> leaving =
      page_candidates(tokens(), {scores_.data(), num_slots_}, paging_, protection_, false);
  std::erase_if(leaving, [&](const PageCandidate& page) {
    return !held_.contains(tokens_[page.begin]);  // a gap
  });
  const auto num_pages = static_cast<std::size_t>(paging_.pages_for(count));
  num_ties_ += paging_.size * static_cast<std::int64_t>(take_lowest(leaving, num_pages));
  for (const PageCandidate& page : leaving) {
    for (std::size_t slot = page.begin; slot < page.end; ++slot) remove(slot, step);
  }
}

void SlotCache::remove(std::size_t slot, int step) {
  const std::int32_t token = tokens_[slot];
  scores_[slot] = kEvictedScore;
  if (marks_gaps()) gaps_[slot] = static_cast<float>(kEvictedScore);
  held_.erase(token);
  --num_held_;
  evicted_after_[token] = step;
  evictions_.push_back({token, step});
}

void SlotCache::close_gaps() {
  std::size_t kept = 0;
  std::size_t next_queued = next_queued_;
  for (std::size_t slot = 0; slot < num_slots_; ++slot) {
    if (scores_[slot] == kEvictedScore) {
      if (slot < next_queued_) --next_queued;
      continue;
    }
    tokens_[kept] = tokens_[slot];
    scores_[kept++] = scores_[slot];
  }
  tokens_.resize(kept);
  scores_.resize(kept);
  if (marks_gaps()) gaps_.assign(kept, 0);
  slots_are_tokens_ = slots_are_tokens_ && kept == num_slots_;
  num_slots_ = kept;
  next_queued_ = next_queued;
}

}  // namespace kvsim
