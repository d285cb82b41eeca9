#include "sim/tiers/stack_misses.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "sim/base/interrupt.h"
#include "sim/tiers/page_marks.h"

namespace kvsim {
namespace {

/// The page that has been completed when `step` begins one; -1: none.
int completed_page(const PageChoices& choices, int step) {
  return step > 0 && choices.begins_page(step) ? step / choices.page - 1 : -1;
}

/// Of each page, when it is accessed next. The smaller key stays: the sooner access or, of equal
/// ones, the later page.
class NextAccess {
 public:
  using Key = std::uint64_t;

  explicit NextAccess(const PageChoices& choices) : next_(choices.pages.size()) {
    std::vector<std::uint32_t> first(static_cast<std::size_t>(choices.num_pages()), kNever);
    for (int step = choices.num_tokens - 1; step >= choices.first_measured; --step) {
      for (std::int64_t i = choices.end[step]; i < choices.end[step + 1]; ++i) {
        next_[i] = first[choices.pages[i]];
        first[choices.pages[i]] = static_cast<std::uint32_t>(step);
      }
    }
    for (std::size_t page = 0; page < first.size(); ++page) {
      first_.push_back(key_of(first[page], static_cast<std::int32_t>(page)));
    }
  }

  /// Of a page that has not been chosen yet.
  Key first(std::int32_t page) const { return first_[page]; }

  /// Of the page with this place among those of all steps, after it was chosen there.
  Key after(const PageChoices& choices, std::int64_t place) const {
    return key_of(next_[place], choices.pages[place]);
  }

  /// The step of the access: only pages that a step chooses have their next one there.
  static int step_of(Key key) { return static_cast<int>(key >> 32); }

 private:
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  static Key key_of(std::uint32_t step, std::int32_t page) {
    return Key{step} << 32 | static_cast<std::uint32_t>(~page);
  }

  std::vector<std::uint32_t> next_;  // parallel to the pages of the choices
  std::vector<Key> first_;           // per page
};

/// The pages that leave the cache of the size at hand; the best of them stays in the next one.
class Leaving {
 public:
  bool empty() const { return keys_.empty(); }

  void add(NextAccess::Key key) {
    keys_.push_back(key);
    std::push_heap(keys_.begin(), keys_.end(), std::greater<>());
  }

  /// Adds a page and takes the best one.
  NextAccess::Key exchange(NextAccess::Key key) {
    if (keys_.empty() || key < keys_.front()) return key;
    const NextAccess::Key best = take();
    add(key);
    return best;
  }

  NextAccess::Key take() {
    std::pop_heap(keys_.begin(), keys_.end(), std::greater<>());
    const NextAccess::Key best = keys_.back();
    keys_.pop_back();
    return best;
  }

 private:
  std::vector<NextAccess::Key> keys_;  // a heap, the smallest key first
};

}  // namespace

// The stack is kept upside down, so that a completed page is pushed on it. A chosen page is in the
// caches with at least as many places as pages lie on it, itself included; the page that has just
// been completed is in all, and has pushed none out when the step is served.
MissCounts lru_misses(const PageChoices& choices, std::vector<int> sizes) {
  MissCounts counts(std::move(sizes));
  PageMarks chosen(choices.num_pages());
  std::vector<std::int32_t> stack;
  std::vector<std::int32_t> passed;
  std::vector<int> needed;
  for (int step = 0; step < choices.num_tokens; ++step) {
    poll_interrupt();
    const int completed = completed_page(choices, step);
    if (completed >= 0) stack.push_back(completed);
    const auto pages = choices.at(step);
    chosen.set(pages);
    needed.clear();
    passed.clear();
    std::size_t place = stack.size();
    while (needed.size() < pages.size()) {
      const std::int32_t page = stack[--place];
      if (chosen[page]) {
        needed.push_back(static_cast<int>(stack.size() - place) - (completed >= 0 ? 1 : 0));
      } else {
        passed.push_back(page);
      }
    }
    std::copy(pages.begin(), pages.end(),
              std::copy(passed.rbegin(), passed.rend(),
                        stack.begin() + static_cast<std::ptrdiff_t>(place)));
    chosen.clear(pages);
    counts.add_nested(needed);
  }
  return counts;
}

// With a chosen pages, a cache of M >= a places keeps them and the best M - a of what else it held.
// From M to M + 1 places, there is one more page to keep: the one at the next place of the stack,
// which is compared with those that leave, or, where that page is chosen, the best of those.
MissCounts belady_misses(const PageChoices& choices, std::vector<int> sizes) {
  MissCounts counts(std::move(sizes));
  const NextAccess next(choices);
  Leaving leaving;
  std::vector<NextAccess::Key> stack;
  std::vector<int> needed;
  for (int step = 0; step < choices.num_tokens; ++step) {
    poll_interrupt();
    const int completed = completed_page(choices, step);
    const std::int64_t begin = choices.end[step];
    const auto num_chosen = static_cast<std::size_t>(choices.end[step + 1] - begin);
    needed.clear();
    if (completed >= 0) {
      if (NextAccess::step_of(next.first(completed)) == step) {
        needed.push_back(0);
      } else {
        leaving.add(next.first(completed));
      }
    }
    std::size_t place = 0;
    for (; place < stack.size(); ++place) {
      if (leaving.empty() && needed.size() == num_chosen && place >= num_chosen) break;
      const NextAccess::Key key = stack[place];
      const bool is_chosen = NextAccess::step_of(key) == step;
      if (is_chosen) needed.push_back(static_cast<int>(place) + 1);
      if (place < num_chosen) {
        if (!is_chosen) leaving.add(key);
        stack[place] = next.after(choices, begin + static_cast<std::int64_t>(place));
      } else {
        stack[place] = is_chosen ? leaving.take() : leaving.exchange(key);
      }
    }
    if (completed >= 0) {
      stack.push_back(place < num_chosen
                          ? next.after(choices, begin + static_cast<std::int64_t>(place))
                          : leaving.take());
    }
    counts.add_nested(needed);
  }
  return counts;
}

}  // namespace kvsim
