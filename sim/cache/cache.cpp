#include "sim/cache/cache.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include "sim/kernels/score_kernels.h"

namespace kvsim {
namespace {

// Of the first `count` slots, which are evicted in this order, those that equal scores decided.
std::int64_t num_tied(const std::vector<double>& scores, const std::vector<std::size_t>& slots,
                      int count) {
  const double last = scores[slots[count - 1]];
  const auto is_last = [&](std::size_t slot) { return scores[slot] == last; };
  const bool one_stays = std::any_of(slots.begin() + count, slots.end(), is_last);
  return one_stays ? std::count_if(slots.begin(), slots.begin() + count, is_last) : 0;
}

}  // namespace

Cache::Cache(int num_tokens, int budget, const Rules& rules, const Paging& paging)
    : num_tokens_(num_tokens),
      budget_(rules.bounded ? std::min(budget, num_tokens) : num_tokens),
      paging_(paging),
      protection_(Protection::of(rules, rules.bounded ? budget : num_tokens, paging)),
      drop_(rules.drop),
      prunes_(rules.prunes) {}

void Cache::admit(std::int32_t token) {
  tokens_.push_back(token);
  scores_.push_back(0);
  evicted_after_.resize(static_cast<std::size_t>(token) + 1, num_tokens_);
}

int Cache::overflow(int most_held, int leaving) const {
  const int held = static_cast<int>(tokens_.size()) - leaving;
  const int excess = held - budget_;
  if (held <= most_held || excess <= 0) return 0;
  if (!paging_.is_by_token()) return overflow_of_pages(excess);
  const int drops = (excess + drop_ - 1) / drop_;
  const auto candidates = static_cast<int>(candidates_end() - candidates_begin());
  return std::min(drops * drop_, candidates - leaving);
}

int Cache::overflow_of_pages(int excess) const {
  const int dropped = (excess + drop_ - 1) / drop_ * drop_ / paging_.size;
  const int leaving = std::max(dropped, paging_.pages_for(excess));
  return std::min(leaving, static_cast<int>(pages().size())) * paging_.size;
}

std::vector<PageCandidate> Cache::pages() const {
  return page_candidates(tokens_, scores_, paging_, protection_, prunes_);
}

void Cache::evict(int count, int step) {
  if (!paging_.is_by_token()) return evict_pages(count, step);
  if (prunes_) count = std::max(count, num_pruned());
  if (count == 1) {
    evict_lowest(step);
  } else if (count > 1) {
    evict_several(count, step);
  }
}

std::vector<std::size_t> Cache::candidates() const {
  std::vector<std::size_t> slots;
  if (paging_.is_by_token()) {
    for (std::size_t slot = candidates_begin(); slot + protection_.newest < tokens_.size();
         ++slot) {
      slots.push_back(slot);
    }
    return slots;
  }
  for (const PageCandidate& page : pages()) {
    for (std::size_t slot = page.begin; slot < page.end; ++slot) slots.push_back(slot);
  }
  return slots;
}

int Cache::num_pruned() const {
  if (std::ssize(tokens_) <= protection_.first + protection_.newest) return 0;
  return static_cast<int>(std::count(scores_.begin() + candidates_begin(),
                                     scores_.begin() + candidates_end(),
                                     -std::numeric_limits<double>::infinity()));
}

void Cache::remove(const std::vector<std::int32_t>& tokens, int step) {
  for (const std::int32_t token : tokens) {
    const auto slot = std::lower_bound(tokens_.begin(), tokens_.end(), token) - tokens_.begin();
    if (slot == std::ssize(tokens_) || tokens_[slot] != token) continue;
    record_eviction(token, step);
    tokens_.erase(tokens_.begin() + slot);
    scores_.erase(scores_.begin() + slot);
  }
}

void Cache::record_eviction(std::int32_t token, int step) {
  evicted_after_[token] = step;
  evictions_.push_back({token, step});
}

void Cache::evict_lowest(int step) {
  const std::span<const double> scores = scores_;
  const std::size_t begin = candidates_begin();
  const auto candidates = scores.subspan(begin, candidates_end() - begin);
  const LowestScore found = lowest(candidates);
  const auto slot = static_cast<std::ptrdiff_t>(begin + found.slot);
  if (found.is_tied) ++num_ties_;
  record_eviction(tokens_[slot], step);
  tokens_.erase(tokens_.begin() + slot);
  scores_.erase(scores_.begin() + slot);
}

void Cache::evict_several(int count, int step) {
  std::vector<std::size_t> slots(candidates_end() - candidates_begin());
  std::iota(slots.begin(), slots.end(), candidates_begin());
  std::partial_sort(slots.begin(), slots.begin() + count, slots.end(),
                    [&](std::size_t a, std::size_t b) {
                      return scores_[a] != scores_[b] ? scores_[a] < scores_[b] : a < b;
                    });
  num_ties_ += num_tied(scores_, slots, count);
  for (int i = 0; i < count; ++i) record_eviction(tokens_[slots[i]], step);
  close_gaps(step);
}

void Cache::evict_pages(int count, int step) {
  if (count == 0 && !prunes_) return;
  std::vector<PageCandidate> leaving = pages();
  const auto num_pages = static_cast<std::size_t>(count / paging_.size);
  num_ties_ += paging_.size * static_cast<std::int64_t>(take_lowest(leaving, num_pages));
  for (const PageCandidate& page : leaving) {
    for (std::size_t slot = page.begin; slot < page.end; ++slot) {
      record_eviction(tokens_[slot], step);
    }
  }
  if (!leaving.empty()) close_gaps(step);
}

// Of the tokens evicted after `step`.
void Cache::close_gaps(int step) {
  std::size_t kept = 0;
  for (std::size_t slot = 0; slot < tokens_.size(); ++slot) {
    if (evicted_after_[tokens_[slot]] == step) continue;
    tokens_[kept] = tokens_[slot];
    scores_[kept++] = scores_[slot];
  }
  tokens_.resize(kept);
  scores_.resize(kept);
}

std::vector<std::int32_t> Cache::select(int count) const {
  const std::size_t num_older = tokens_.size() - 1;
  const std::size_t chosen = std::min(static_cast<std::size_t>(count), num_older);
  const std::size_t first = std::min(static_cast<std::size_t>(protection_.first), chosen);
  // The protected window includes the newest token.
  const auto window = static_cast<std::size_t>(std::max(0, protection_.newest - 1));
  const std::size_t newest = std::min({window, chosen - first, num_older - first});
  const std::span<const double> scores(scores_.data() + first, num_older - first - newest);
  std::size_t places = chosen - first - newest;
  double cutoff = std::numeric_limits<double>::infinity();
  if (places > 0) {
    std::vector<double> ranked(scores.begin(), scores.end());
    const auto last = ranked.begin() + static_cast<std::ptrdiff_t>(places - 1);
    std::nth_element(ranked.begin(), last, ranked.end(), std::greater<>());
    cutoff = *last;
    places -= static_cast<std::size_t>(
        std::count_if(ranked.begin(), last, [&](double score) { return score > cutoff; }));
  }
  // From the newest to the oldest: the later of equals come first.
  std::vector<std::int32_t> selected{tokens_.back()};
  for (std::size_t slot = num_older; slot-- > 0;) {
    const bool is_protected = slot < first || slot >= num_older - newest;
    const double score = scores_[slot];
    if (is_protected || score > cutoff || (score == cutoff && places > 0)) {
      selected.push_back(tokens_[slot]);
      if (!is_protected && score == cutoff) --places;
    }
  }
  std::reverse(selected.begin(), selected.end());
  return selected;
}

}  // namespace kvsim
