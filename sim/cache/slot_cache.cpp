#include "sim/cache/slot_cache.h"

#include <algorithm>

namespace kvsim {
namespace {

constexpr std::size_t kGroupSlots = 64;  // slots that share one score bound

}  // namespace

SlotCache::SlotCache(int num_tokens, int budget, const Rules& rules)
    : budget_(std::min(budget, num_tokens)),
      rule_(*rules.score),
      protect_first_(std::min(rules.protect_first, budget_)),
      protect_newest_(std::min(rules.protect_newest, budget_ - static_cast<int>(protect_first_))),
      held_(num_tokens),
      evicted_after_(num_tokens, num_tokens) {}

void SlotCache::begin_block(std::int32_t first, int count) {
  if (num_slots_ > most_slots()) close_gaps();
  evictions_.clear();
  for (int i = 0; i < count; ++i) {
    tokens_.push_back(first + i);
    scores_.push_back(0);
  }
}

// From the first gap that is closed on, weights have to be gathered by slot, which is worth it once
// half of the slots are gaps. Then few gaps are better. Rules of the kind `newest` gather nothing.
std::size_t SlotCache::most_slots() const {
  const auto held = static_cast<std::size_t>(num_held_);
  if (rule_.kind == ScoreRule::Kind::newest) return held;
  return slots_are_tokens_ ? 2 * held : held + held / 8;
}

void SlotCache::admit() {
  held_.insert(tokens_[num_slots_++]);
  ++num_held_;
}

void SlotCache::score(const ScoredStep& step, std::span<const float> weight, float scale) {
  const Slots slots{tokens(), weight, scale, {scores_.data(), num_slots_}};
  lowest_ = update_scores(rule_, step, slots, candidates_begin(), candidates_end());
}

void SlotCache::evict(int step, int most_held) {
  const int count = num_held_ > most_held ? num_held_ - budget_ : 0;
  if (count > 1) return evict_several(count, step);
  if (count < 1) return;
  const auto [slot, is_tied] = rule_.kind == ScoreRule::Kind::newest ? find_lowest() : lowest_;
  if (is_tied) ++num_ties_;
  remove(slot, step);
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

// For fixed scores, the lowest score of a group stays a lower bound after evictions. Only groups
// with a bound below the lowest score found so far have to be searched.
LowestScore SlotCache::find_lowest() {
  const std::size_t begin = candidates_begin();
  const std::size_t end = candidates_end();
  const auto lowest_of = [&](std::size_t first, std::size_t last) {
    const LowestScore found = lowest(std::span(scores_).subspan(first, last - first));
    return LowestScore{first + found.slot, found.is_tied};
  };
  const std::size_t first_group = (begin + kGroupSlots - 1) / kGroupSlots;
  const std::size_t num_groups = end / kGroupSlots;
  if (num_groups <= first_group) return lowest_of(begin, end);
  group_bound_.resize(std::max(group_bound_.size(), num_groups), -kEvictedScore);
  std::size_t found = end;
  const auto search = [&](std::size_t first, std::size_t last) {
    if (first == last) return kEvictedScore;
    const std::size_t slot = lowest_of(first, last).slot;
    const bool is_first = found == end || scores_[slot] < scores_[found] ||
                          (scores_[slot] == scores_[found] && slot < found);
    if (is_first) found = slot;
    return scores_[slot];
  };
  search(begin, first_group * kGroupSlots);
  search(num_groups * kGroupSlots, end);
  const std::span<const double> bounds(group_bound_.data() + first_group, num_groups - first_group);
  while (true) {
    const std::size_t group = first_group + lowest(bounds).slot;
    const bool can_be_first =
        found == end || group_bound_[group] < scores_[found] ||
        (group_bound_[group] == scores_[found] && group * kGroupSlots < found);
    const bool is_known = found / kGroupSlots == group && found != end;
    if (!can_be_first || is_known) return {found, is_tied(found, first_group, num_groups)};
    group_bound_[group] = search(group * kGroupSlots, (group + 1) * kGroupSlots);
  }
}

// Whether another candidate has the score of `slot`, the lowest. A group whose bound is higher has
// none.
bool SlotCache::is_tied(std::size_t slot, std::size_t first_group, std::size_t num_groups) const {
  const double score = scores_[slot];
  const auto times = [&](std::size_t first, std::size_t last) {
    return count_equal(std::span(scores_).subspan(first, last - first), score);
  };
  std::size_t equal = times(candidates_begin(), first_group * kGroupSlots) +
                      times(num_groups * kGroupSlots, candidates_end());
  for (std::size_t group = first_group; group < num_groups && equal < 2; ++group) {
    if (group_bound_[group] > score) continue;
    equal += times(group * kGroupSlots, (group + 1) * kGroupSlots);
  }
  return equal > 1;
}

void SlotCache::remove(std::size_t slot, int step) {
  const std::int32_t token = tokens_[slot];
  scores_[slot] = kEvictedScore;
  held_.erase(token);
  --num_held_;
  evicted_after_[token] = step;
  evictions_.push_back({token, step});
}

void SlotCache::close_gaps() {
  std::size_t kept = 0;
  for (std::size_t slot = 0; slot < num_slots_; ++slot) {
    if (scores_[slot] == kEvictedScore) continue;
    tokens_[kept] = tokens_[slot];
    scores_[kept++] = scores_[slot];
  }
  tokens_.resize(kept);
  scores_.resize(kept);
  slots_are_tokens_ = slots_are_tokens_ && kept == num_slots_;
  num_slots_ = kept;
  group_bound_.clear();
}

}  // namespace kvsim
