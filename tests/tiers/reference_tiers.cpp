#include "tests/tiers/reference_tiers.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace kvsim::tiers_test {
namespace {

/// The device, page by page.
class Device {
 public:
  Device(const PageChoices& choices, Replacement replacement, int resident)
      : choices_(choices), replacement_(replacement), resident_(resident) {
    for (std::size_t page = 0; page < choices.prompt_mass.size(); ++page) {
      mass_[static_cast<int>(page)] = choices.prompt_mass[page];
    }
  }

  int advance(int step) {
    step_ = step;
    own_ = step / choices_.page;
    const auto chosen = choices_.at(step);
    chosen_ = {chosen.begin(), chosen.end()};
    if (step % choices_.page == 0) take_place(own_);
    int misses = 0;
    for (const int page : chosen) {
      if (held_.contains(page)) continue;
      take_place(page);
      ++misses;
    }
    for (const int page : chosen) use(page);
    recency_.push_back(own_);
    add_mass();
    return misses;
  }

 private:
  void take_place(int page) {
    std::size_t frame = frames_.size();
    if (std::ssize(held_) == resident_) {
      const int leaving = replacement_ == Replacement::clock ? sweep() : victim();
      frame = static_cast<std::size_t>(std::find(frames_.begin(), frames_.end(), leaving) -
                                       frames_.begin());
      held_.erase(leaving);
    } else {
      frames_.push_back(page);
    }
    frames_[frame] = page;
    if (std::ssize(frames_) == resident_ && swept_) hand_ = frame + 1;
    swept_ = false;
    held_.insert(page);
    referenced_.insert(page);
    arrival_[page] = arrivals_++;
  }

  void use(int page) {
    recency_.push_back(page);
    ++uses_[page];
    referenced_.insert(page);
  }

  bool may_leave(int page) const { return page != own_ && !chosen_.contains(page); }

  int sweep() {
    swept_ = true;
    for (;; ++hand_) {
      const int page = frames_[hand_ % frames_.size()];
      if (!may_leave(page)) continue;
      if (referenced_.erase(page) == 0) {
        hand_ %= frames_.size();
        return page;
      }
    }
  }

  /// The page with the smallest key: of pages with equal ones the lowest.
  int victim() const {
    int worst = -1;
    for (const int page : held_) {
      if (may_leave(page) && (worst < 0 || key(page) < key(worst))) worst = page;
    }
    return worst;
  }

  double key(int page) const {
    const auto last = std::find(recency_.rbegin(), recency_.rend(), page);
    switch (replacement_) {
      case Replacement::lru:
        return -static_cast<double>(last - recency_.rbegin());
      case Replacement::fifo:
        return arrival_.at(page);
      case Replacement::lfu:
        return uses_.contains(page) ? uses_.at(page) : 0;
      case Replacement::mass:
        return mass_.contains(page) ? mass_.at(page) : 0;
      default:
        return -next_access(page);
    }
  }

  double next_access(int page) const {
    for (int step = step_; step < choices_.num_tokens; ++step) {
      const auto pages = choices_.at(step);
      if (std::find(pages.begin(), pages.end(), page) != pages.end()) return step;
    }
    return std::numeric_limits<double>::infinity();
  }

  void add_mass() {
    if (choices_.own_mass.empty() || step_ < choices_.first_measured) return;
    for (std::int64_t i = choices_.end[step_]; i < choices_.end[step_ + 1]; ++i) {
      mass_[choices_.pages[i]] += choices_.mass[i];
    }
    mass_[own_] += choices_.own_mass[step_ - choices_.first_measured];
  }

  const PageChoices& choices_;
  Replacement replacement_;
  int resident_;
  int step_ = 0;
  int own_ = 0;
  std::set<int> chosen_;
  std::set<int> held_;
  std::vector<int> recency_;  // every use, in order
  std::map<int, int> arrival_;
  std::map<int, int> uses_;
  std::map<int, double> mass_;
  int arrivals_ = 0;
  std::vector<int> frames_;  // of clock
  std::set<int> referenced_;
  std::size_t hand_ = 0;
  bool swept_ = false;
};

}  // namespace

std::vector<int> reference_misses(const PageChoices& choices, Replacement replacement,
                                  int resident) {
  Device device(choices, replacement, resident);
  std::vector<int> misses;
  for (int step = 0; step < choices.num_tokens; ++step) {
    const int found = device.advance(step);
    if (step >= choices.first_measured) misses.push_back(found);
  }
  return misses;
}

int fewest_misses(const PageChoices& choices, int resident) {
  // The pages held, that of the step included, and the fewest misses that lead to it.
  std::map<std::set<int>, int> states{{{}, 0}};
  for (int step = 0; step < choices.num_tokens; ++step) {
    const int own = step / choices.page;
    std::vector<int> needed(choices.at(step).begin(), choices.at(step).end());
    std::map<std::set<int>, int> next;
    const std::function<void(std::set<int>, std::size_t, int)> take =
        [&](std::set<int> held, std::size_t index, int misses) {
          const int page = index == 0 ? own : index <= needed.size() ? needed[index - 1] : -1;
          if (page < 0) {
            const auto [at, is_new] = next.try_emplace(std::move(held), misses);
            if (!is_new) at->second = std::min(at->second, misses);
            return;
          }
          if (held.contains(page)) return take(held, index + 1, misses);
          if (index > 0) ++misses;
          if (std::ssize(held) < resident) {
            held.insert(page);
            return take(held, index + 1, misses);
          }
          for (const int leaving : held) {
            if (leaving == own || std::count(needed.begin(), needed.end(), leaving) > 0) continue;
            std::set<int> changed = held;
            changed.erase(leaving);
            changed.insert(page);
            take(std::move(changed), index + 1, misses);
          }
        };
    for (const auto& [held, misses] : states) take(held, 0, misses);
    states = std::move(next);
  }
  int fewest = std::numeric_limits<int>::max();
  for (const auto& [held, misses] : states) fewest = std::min(fewest, misses);
  return fewest;
}

PageChoices random_choices(int num_tokens, int page, int first_measured, int most,
                           std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  PageChoices choices;
  choices.page = page;
  choices.num_tokens = num_tokens;
  choices.first_measured = first_measured;
  for (int i = 0; i < choices.num_pages(); ++i) choices.prompt_mass.push_back(below(4));
  std::set<int> chosen;
  for (int step = 0; step < num_tokens; ++step) {
    const int older = step / page;
    if (step >= first_measured) {
      choices.own_mass.push_back(static_cast<float>(below(3)));
      // Some of what was chosen before, so that accesses recur.
      if (below(3) == 0) chosen.clear();
      while (std::ssize(chosen) > std::min(most, older)) chosen.erase(chosen.begin());
      const int wanted = std::min(below(most + 1), older);
      while (std::ssize(chosen) < wanted) chosen.insert(below(older));
      for (const int chosen_page : chosen) {
        choices.pages.push_back(chosen_page);
        choices.mass.push_back(static_cast<float>(below(5)));
      }
    }
    choices.end.push_back(std::ssize(choices.pages));
  }
  return choices;
}

}  // namespace kvsim::tiers_test
