#include "sim/tiers/stack_misses.h"

#include <algorithm>
#include <limits>
#include <span>

#include "sim/base/interrupt.h"
#include "sim/tiers/ascending_set.h"
#include "sim/tiers/page_marks.h"

namespace kvsim {
namespace {

/// The page that has been completed when `step` begins one; -1: none.
int completed_page(const PageChoices& choices, int step) {
  return step > 0 && choices.begins_page(step) ? step / choices.page - 1 : -1;
}

/// Of each page, when it is accessed next: the place of that access among those of all steps, the
/// pages of a step from the last to the first; beyond them, for pages that are not accessed again.
/// So the smaller key stays: the sooner access or, of equal ones, the later page.
template <class Key>
class NextAccess {
 public:
  explicit NextAccess(const PageChoices& choices) : next_(choices.pages.size()) {
    for (auto later = static_cast<std::size_t>(choices.num_pages()); later-- > 0;) {
      first_.push_back(static_cast<Key>(next_.size() + later));
    }
    for (int step = choices.num_tokens - 1; step >= choices.first_measured; --step) {
      const std::int64_t begin = choices.end[step];
      const std::int64_t end = choices.end[step + 1];
      for (std::int64_t i = begin; i < end; ++i) {
        Key& next = first_[choices.pages[i]];
        next_[i] = next;
        next = static_cast<Key>(begin + (end - 1 - i));
      }
    }
  }

  /// Of a page that has not been chosen yet.
  Key first(std::int32_t page) const { return first_[page]; }

  /// Of the page with this place among those of all steps, after it was chosen there.
  Key after(std::size_t place) const { return next_[place]; }

  /// All keys are below.
  std::size_t limit() const { return next_.size() + first_.size(); }

 private:
  std::vector<Key> next_;   // parallel to the pages of the choices
  std::vector<Key> first_;  // per page
};

/// With a chosen pages, a cache of M >= a places keeps them and the best M - a of what else it
/// held. From M to M + 1 places, there is one more page to keep: the one at the next place of the
/// stack, which is compared with those that leave, or, where that page is chosen, the best of
/// those.
template <class Key>
class BeladyStack {
 public:
  explicit BeladyStack(const PageChoices& choices)
      : choices_(choices), next_(choices), leaving_(next_.limit()) {}

  /// Serves the next step. Returns the least size with which each chosen page hits, ascending.
  std::span<const int> serve(int step) {
    const auto begin = static_cast<std::size_t>(choices_.end[step]);
    const auto end = static_cast<Key>(choices_.end[step + 1]);  // the chosen pages' keys are below
    const std::size_t num_chosen = end - begin;
    const int completed = completed_page(choices_, step);
    needed_.clear();
    if (completed >= 0) note(next_.first(completed), end, 0);
    const std::size_t top = std::min(num_chosen, stack_.size());
    for (std::size_t place = 0; place < top; ++place) {
      note(stack_[place], end, place + 1);
      stack_[place] = next_.after(begin + place);
    }
    push_down(top, end);
    if (completed >= 0) {
      stack_.push_back(top < num_chosen ? next_.after(begin + top) : leaving_.take());
    }
    return needed_;
  }

 private:
  void note(Key key, Key end, std::size_t size) {
    if (key < end) {
      needed_.push_back(static_cast<int>(size));
    } else {
      leaving_.add(key);
    }
  }

  /// From `place` on. As better pages stay, the best of those that leave only gets worse.
  void push_down(std::size_t place, Key end) {
    const std::span<Key> stack = stack_;
    Key best = leaving_.least();
    for (; place < stack.size(); ++place) {
      const Key key = stack[place];
      if (key >= end && key <= best) {       // it stays
        if (best == leaving_.kNone) return;  // every chosen page is found
        continue;
      }
      if (key < end) {
        needed_.push_back(static_cast<int>(place) + 1);
      } else {
        leaving_.add(key);
      }
      stack[place] = leaving_.take();
      best = leaving_.least();
    }
  }

  const PageChoices& choices_;
  NextAccess<Key> next_;
  AscendingSet<Key> leaving_;  // of the cache of the size at hand
  std::vector<Key> stack_;
  std::vector<int> needed_;
};

template <class Key>
void count_belady_misses(const PageChoices& choices, MissCounts& counts) {
  BeladyStack<Key> stack(choices);
  for (int step = 0; step < choices.num_tokens; ++step) {
    poll_interrupt();
    counts.add_nested(stack.serve(step));
  }
}

}  // namespace

// The stack is kept upside down, so that a completed page is pushed on it. A chosen page is in the
// caches with at least as many places as pages lie on it, itself included; the page that has just
// been completed is in all, and has pushed none out when the step is served.
MissCounts lru_misses(const PageChoices& choices, std::vector<int> sizes) {
  MissCounts counts(std::move(sizes));
  PageMarks chosen(choices.num_pages());
  std::vector<std::int32_t> stack;
  std::vector<std::int32_t> passed(static_cast<std::size_t>(choices.num_pages()) + 1);
  std::vector<int> needed(static_cast<std::size_t>(choices.most_chosen()) + 1);
  for (int step = 0; step < choices.num_tokens; ++step) {
    poll_interrupt();
    const int completed = completed_page(choices, step);
    if (completed >= 0) stack.push_back(completed);
    const auto pages = choices.at(step);
    chosen.set(pages);
    // Without branches, which processors could not foresee: each page is written to both.
    std::size_t place = stack.size();
    std::size_t num_found = 0;
    std::size_t num_passed = 0;
    int lies_above = completed >= 0 ? -1 : 0;
    while (num_found < pages.size()) {
      const std::int32_t page = stack[--place];
      passed[num_passed] = page;
      needed[num_found] = ++lies_above;
      const std::size_t is_chosen = chosen[page] ? 1 : 0;
      num_found += is_chosen;
      num_passed += 1 - is_chosen;
    }
    const auto last = passed.begin() + static_cast<std::ptrdiff_t>(num_passed);
    std::copy(pages.begin(), pages.end(),
              std::reverse_copy(passed.begin(), last,
                                stack.begin() + static_cast<std::ptrdiff_t>(place)));
    chosen.clear(pages);
    counts.add_nested(std::span(needed).first(num_found));
  }
  return counts;
}

MissCounts belady_misses(const PageChoices& choices, std::vector<int> sizes) {
  MissCounts counts(std::move(sizes));
  const std::size_t keys = choices.pages.size() + static_cast<std::size_t>(choices.num_pages());
  if (keys < std::numeric_limits<std::uint32_t>::max()) {
    count_belady_misses<std::uint32_t>(choices, counts);
  } else {
    count_belady_misses<std::uint64_t>(choices, counts);
  }
  return counts;
}

}  // namespace kvsim
