#include "gpu/replay_groups.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace kvsim::gpu {
namespace {

// During a block the gaps stay and each step adds a token.
int slots_of(const ReplayTask& task, int num_tokens) {
  return std::min(num_tokens, task.most_held + kSteps);
}

// Small caches are of one class, then each power of two.
int size_class(int slots) {
  return std::bit_width(static_cast<unsigned>((slots + kSmallCache - 1) / kSmallCache - 1));
}

bool have_same_prompt(const Shape& shape, std::span<const double> arrival_scores,
                      const ReplayTask& a, const ReplayTask& b) {
  if (a.selects || b.selects || a.rule != b.rule) return false;
  if (a.sees_full_attention != b.sees_full_attention) return false;
  if (a.rule.kind != ScoreRule::Kind::newest) return true;
  const auto tokens = static_cast<std::size_t>(shape.num_tokens);
  const auto row_of = [&](const ReplayTask& task) {
    return arrival_scores.subspan(static_cast<std::size_t>(task.arrival_row) * tokens, tokens);
  };
  return std::ranges::equal(row_of(a), row_of(b));
}

}  // namespace

ReplayGroups::ReplayGroups(const Shape& shape, std::span<const ReplayTask> tasks)
    : shape_(shape), order_(tasks.size()) {
  const auto slots = [&](std::int32_t replay) {
    return slots_of(tasks[static_cast<std::size_t>(replay)], shape.num_tokens);
  };
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::int32_t a, std::int32_t b) { return slots(a) < slots(b); });
  for (int place = 0; const std::int32_t replay : order_) {
    const bool is_new =
        by_slots_.empty() || size_class(by_slots_.back().slots) != size_class(slots(replay));
    if (is_new) by_slots_.push_back({.first = place});
    ++by_slots_.back().count;
    by_slots_.back().slots = slots(replay);
    ++place;
  }
  through_prompt_.first = static_cast<int>(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].prompt_of != static_cast<int>(i)) continue;
    order_.push_back(static_cast<std::int32_t>(i));
    ++through_prompt_.count;
  }
}

std::vector<ReplayGroup> ReplayGroups::of_block(int first_step, int num_steps) const {
  const int width = first_step + num_steps;
  const bool holds_prompt = first_step < shape_.prompt_length;
  std::vector<ReplayGroup> groups = by_slots_;
  if (holds_prompt) groups = {{.first = 0, .count = through_prompt_.first}};
  for (ReplayGroup& group : groups) {
    group.slots = holds_prompt ? width : std::min(width, group.slots);
  }
  return groups;
}

void share_prompts(const Shape& shape, std::span<const double> arrival_scores,
                   std::span<ReplayTask> tasks) {
  std::size_t first = 0;  // of the unit
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].unit != tasks[first].unit) first = i;
    const auto before = tasks.subspan(first, i - first);
    const auto same = std::find_if(before.begin(), before.end(), [&](const ReplayTask& task) {
      return have_same_prompt(shape, arrival_scores, task, tasks[i]);
    });
    tasks[i].prompt_of = static_cast<int>(first + (same - before.begin()));
  }
}

}  // namespace kvsim::gpu
