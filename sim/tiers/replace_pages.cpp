#include "sim/tiers/replace_pages.h"

#include <algorithm>

#include "sim/base/interrupt.h"
#include "sim/tiers/page_cache.h"
#include "sim/tiers/stack_misses.h"

namespace kvsim {
namespace {

/// What lfu and mass order pages by: it depends on the choices alone, so all sizes share it.
class PageScores {
 public:
  PageScores(const PageChoices& choices, Replacement replacement)
      : choices_(choices),
        is_mass_(replacement == Replacement::mass),
        scores_(static_cast<std::size_t>(choices.num_pages())) {
    if (is_mass_) {
      std::copy(choices.prompt_mass.begin(), choices.prompt_mass.end(), scores_.begin());
    }
  }

  const std::vector<double>& values() const { return scores_; }

  /// After a step has attended.
  void add(int step) {
    for (std::int64_t i = choices_.end[step]; i < choices_.end[step + 1]; ++i) {
      scores_[choices_.pages[i]] += is_mass_ ? double{choices_.mass[i]} : 1;
    }
    if (is_mass_ && step >= choices_.first_measured) {
      scores_[step / choices_.page] += choices_.own_mass[step - choices_.first_measured];
    }
  }

 private:
  const PageChoices& choices_;
  bool is_mass_;
  std::vector<double> scores_;
};

std::unique_ptr<PageCache> make_cache(Replacement replacement, int places, int num_pages,
                                      const PageScores& scores) {
  switch (replacement) {
    case Replacement::fifo:
      return make_fifo_cache(places, num_pages);
    case Replacement::clock:
      return make_clock_cache(places, num_pages);
    default:
      return make_scored_cache(places, scores.values());
  }
}

}  // namespace

MissCounts replace_pages(const PageChoices& choices, Replacement replacement,
                         std::vector<int> sizes) {
  if (replacement == Replacement::lru) return lru_misses(choices, std::move(sizes));
  if (replacement == Replacement::belady) return belady_misses(choices, std::move(sizes));
  MissCounts counts(std::move(sizes));
  PageScores scores(choices, replacement);
  std::vector<std::unique_ptr<PageCache>> caches;
  for (const int places : counts.sizes()) {
    caches.push_back(make_cache(replacement, places, choices.num_pages(), scores));
  }
  PageMarks chosen(choices.num_pages());
  for (int step = 0; step < choices.num_tokens; ++step) {
    poll_interrupt();
    const auto pages = choices.at(step);
    chosen.set(pages);
    const TierStep asked{step / choices.page, choices.begins_page(step), pages, chosen};
    for (std::size_t i = 0; i < caches.size(); ++i) counts.add(i, caches[i]->advance(asked));
    chosen.clear(pages);
    scores.add(step);
  }
  return counts;
}

}  // namespace kvsim
