#include "sim/cache/page_stack.h"

#include <algorithm>

#include "sim/cache/page_candidates.h"

namespace kvsim {
namespace {

// The pages that may not leave as long as all of them are in the budget; see Protection::of(). The
// newest token's page is one of them even if the policy protects nothing. When a page is evicted
// for the one that begins, the newest token is the first of its page.
Rules rules_of_pages(int num_tokens, const Rules& rules, const Paging& paging) {
  if (paging.is_by_token()) return rules;
  const int newest = std::min(rules.protect_newest, num_tokens);
  return {.protect_first = paging.pages_for(std::min(rules.protect_first, num_tokens)),
          .protect_newest = 1 + paging.pages_for(newest - 1)};
}

}  // namespace

PageStack::PageStack(int num_tokens, const Rules& rules, const Paging& paging)
    : paging_(paging),
      protect_newest_(std::min(rules.protect_newest, num_tokens)),
      pages_(paging.pages_for(num_tokens), rules_of_pages(num_tokens, rules, paging)) {
  if (!paging_.is_by_token()) order_.reserve(static_cast<std::size_t>(num_tokens));
}

void PageStack::push(std::span<const double> scores) {
  if (paging_.is_by_token()) return pages_.push(scores);
  const auto token = static_cast<std::int32_t>(order_.size());
  if (const int place = token % paging_.size; place != 0) {
    order_.insert(order_.begin() + place, token);
    return;
  }
  score_pages(scores);
  pages_.push(page_scores_);
  arrange(token);
}

void PageStack::fill(std::span<const double> scores) {
  if (paging_.is_by_token()) return pages_.fill(scores);
  const auto newest = static_cast<std::int32_t>(scores.size()) - 1;
  score_pages(scores);
  // In a page that is not its first token's alone, a window of tokens reaches less far back.
  pages_.fill(page_scores_, 1 + paging_.pages_for(protect_newest_ - newest % paging_.size - 1));
  arrange(newest);
}

// The newest token's page does not leave, so its score does not matter.
void PageStack::score_pages(std::span<const double> scores) {
  const auto size = static_cast<std::size_t>(paging_.size);
  const std::size_t complete = (scores.size() - 1) / size;
  page_scores_.assign(complete + 1, 0);
  for (std::size_t page = 0; page < complete; ++page) {
    page_scores_[page] = page_score(scores.subspan(page * size, size), paging_.score);
  }
}

void PageStack::arrange(std::int32_t newest) {
  order_.clear();
  const auto add = [&](int page) {
    const std::int32_t end = std::min((page + 1) * paging_.size, newest + 1);
    for (std::int32_t token = page * paging_.size; token < end; ++token) order_.push_back(token);
  };
  const int own = paging_.page_of(newest);
  add(own);
  for (const std::int32_t page : pages_.order()) {
    if (page != own) add(page);
  }
}

}  // namespace kvsim
