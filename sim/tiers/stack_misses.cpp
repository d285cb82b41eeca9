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
      keys_.push_back(key_of(first[page], static_cast<std::int32_t>(page)));
    }
  }

  Key of(std::int32_t page) const { return keys_[page]; }

  static std::int32_t page_of(Key key) { return ~static_cast<std::int32_t>(key); }

  /// After the accesses of a step.
  void advance(const PageChoices& choices, int step) {
    for (std::int64_t i = choices.end[step]; i < choices.end[step + 1]; ++i) {
      keys_[choices.pages[i]] = key_of(next_[i], choices.pages[i]);
    }
  }

 private:
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  static Key key_of(std::uint32_t step, std::int32_t page) {
    return Key{step} << 32 | static_cast<std::uint32_t>(~page);
  }

  std::vector<std::uint32_t> next_;  // parallel to the pages of the choices
  std::vector<Key> keys_;            // per page
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
  PageMarks chosen(choices.num_pages());
  NextAccess next(choices);
  Leaving leaving;
  std::vector<std::int32_t> stack;
  std::vector<int> needed;
  for (int step = 0; step < choices.num_tokens; ++step) {
    poll_interrupt();
    const int completed = completed_page(choices, step);
    const auto pages = choices.at(step);
    chosen.set(pages);
    needed.clear();
    if (completed >= 0) {
      if (chosen[completed]) {
        needed.push_back(0);
      } else {
        leaving.add(next.of(completed));
      }
    }
    std::size_t place = 0;
    for (; place < stack.size(); ++place) {
      if (leaving.empty() && needed.size() == pages.size() && place >= pages.size()) break;
      const std::int32_t page = stack[place];
      const bool is_chosen = chosen[page];
      if (is_chosen) needed.push_back(static_cast<int>(place) + 1);
      if (place < pages.size()) {
        if (!is_chosen) leaving.add(next.of(page));
        stack[place] = pages[place];
      } else {
        stack[place] =
            NextAccess::page_of(is_chosen ? leaving.take() : leaving.exchange(next.of(page)));
      }
    }
    if (completed >= 0) {
      stack.push_back(place < pages.size() ? pages[place] : NextAccess::page_of(leaving.take()));
    }
    chosen.clear(pages);
    next.advance(choices, step);
    counts.add_nested(needed);
  }
  return counts;
}

}  // namespace kvsim
