#include "sim/core/slot_cache.h"

#include <algorithm>

#include "sim/core/score_kernels.h"

namespace kvsim {
namespace {

constexpr std::size_t kBoundedSlots = 64;  // slots whose lowest score is remembered together

}  // namespace

SlotCache::SlotCache(int num_tokens, int budget, const Rules& rules)
    : budget_(std::min(budget, num_tokens)),
      rule_(*rules.score),
      protect_first_(std::min(rules.protect_first, budget_)),
      protect_newest_(std::min(rules.protect_newest, budget_ - static_cast<int>(protect_first_))),
      // Where nobody gathers weights by slot, gaps are closed for next to nothing.
      most_slots_per_token_(rule_.kind == ScoreRule::Kind::newest ? 1 : 2),
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

void SlotCache::score(const ScoredStep& step, std::span<const float> weight, float scale) {
  const Slots slots{tokens(), weight, scale, {scores_.data(), num_slots_}};
  lowest_ = update_scores(rule_, step, slots, candidates_begin(), candidates_end());
}

void SlotCache::evict(int step) {
  const int count = overflow();
  if (count == 0) return;
  if (count == 1) {
    remove(rule_.kind == ScoreRule::Kind::newest ? find_lowest() : lowest_, step);
    return;
  }
  std::vector<std::size_t> candidates;
  for (std::size_t slot = candidates_begin(); slot < candidates_end(); ++slot) {
    if (scores_[slot] != kGone) candidates.push_back(slot);
  }
  const auto last = candidates.begin() + std::min<std::ptrdiff_t>(count, std::ssize(candidates));
  std::nth_element(candidates.begin(), last, candidates.end(), [&](std::size_t a, std::size_t b) {
    return scores_[a] != scores_[b] ? scores_[a] < scores_[b] : a < b;
  });
  for (auto slot = candidates.begin(); slot != last; ++slot) remove(*slot, step);
}

// Scores that stay as they are: what was the lowest of a group once is a bound for good. Only
// groups whose bound is below the lowest score found have to be looked at, a few of many.
std::size_t SlotCache::find_lowest() {
  const std::size_t begin = candidates_begin();
  const std::size_t end = candidates_end();
  const auto lowest_of = [&](std::size_t first, std::size_t last) {
    return first + lowest(std::span(scores_).subspan(first, last - first));
  };
  const std::size_t first_group = (begin + kBoundedSlots - 1) / kBoundedSlots;
  const std::size_t num_groups = end / kBoundedSlots;
  if (num_groups <= first_group) return lowest_of(begin, end);
  group_low_.resize(std::max(group_low_.size(), num_groups), -kGone);
  std::size_t found = end;
  const auto look = [&](std::size_t first, std::size_t last) {
    if (first == last) return kGone;
    const std::size_t slot = lowest_of(first, last);
    const bool is_first = found == end || scores_[slot] < scores_[found] ||
                          (scores_[slot] == scores_[found] && slot < found);
    if (is_first) found = slot;
    return scores_[slot];
  };
  look(begin, first_group * kBoundedSlots);
  look(num_groups * kBoundedSlots, end);
  const std::span<const double> bounds(group_low_.data() + first_group, num_groups - first_group);
  while (true) {
    const std::size_t group = first_group + lowest(bounds);
    const bool can_be_first =
        found == end || group_low_[group] < scores_[found] ||
        (group_low_[group] == scores_[found] && group * kBoundedSlots < found);
    const bool is_known = found / kBoundedSlots == group && found != end;
    if (!can_be_first || is_known) return found;
    group_low_[group] = look(group * kBoundedSlots, (group + 1) * kBoundedSlots);
  }
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
  group_low_.clear();
}

}  // namespace kvsim
