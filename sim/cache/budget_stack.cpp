#include "sim/cache/budget_stack.h"

#include <algorithm>
#include <numeric>

#include "sim/kernels/curve_kernels.h"

namespace kvsim {
BudgetStack::BudgetStack(int num_tokens, const Rules& rules)
    : protect_first_(std::min(rules.protect_first, num_tokens)),
      protect_newest_(std::min(rules.protect_newest, num_tokens)) {
  order_.reserve(num_tokens);
}

void BudgetStack::push(std::span<const double> scores) {
  const auto token = static_cast<std::int32_t>(order_.size());
  if (order_.size() < protect_first_) {
    order_.push_back(token);
    return;
  }
  const auto newest = order_.begin() + static_cast<std::ptrdiff_t>(protect_first_);
  if (order_.size() < protect_first_ + protect_newest_) {
    order_.insert(newest, token);
    return;
  }
  std::int32_t candidate = token;
  if (protect_newest_ > 0) {  // the oldest of the newest loses its protection
    const auto end = newest + static_cast<std::ptrdiff_t>(protect_newest_);
    candidate = *(end - 1);
    std::move_backward(newest, end - 1, end);
    *newest = token;
  }
  push_down(candidate, scores);
}

// The cache of budget B evicts the lower of the token at place B and the token that the cache of
// budget B - 1 evicts; the higher one takes place B. So only places at which the running minimum
// changes get a different token.
void BudgetStack::push_down(std::int32_t token, std::span<const double> scores) {
  const std::size_t size = order_.size();
  score_.resize(size);
  std::size_t place = protect_first_ + protect_newest_;
  gather(scores.data(), order_, place, score_.data());
  double low = scores[token];
  const auto is_lower = [&](std::size_t i) {
    return score_[i] < low || (score_[i] == low && order_[i] < token);
  };
  while (place < size) {
    // Runs of lower scores are common.
    for (; place < size && is_lower(place); ++place) {
      std::swap(order_[place], token);
      low = score_[place];
    }
    place = skip_higher_scores(score_.data(), low, place, size);
    while (place < size && score_[place] > low) ++place;
    while (place < size && score_[place] == low && !is_lower(place)) ++place;
  }
  order_.push_back(token);
}

void BudgetStack::fill(std::span<const double> scores, std::size_t protect_newest) {
  order_.resize(scores.size());
  std::iota(order_.begin(), order_.end(), 0);
  const std::size_t first = std::min(protect_first_, order_.size());
  const std::size_t newest = std::min(protect_newest, order_.size() - first);
  const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(first);
  std::reverse(begin, order_.end());
  std::sort(begin + static_cast<std::ptrdiff_t>(newest), order_.end(),
            [&](std::int32_t a, std::int32_t b) {
              return scores[a] != scores[b] ? scores[a] > scores[b] : a > b;
            });
}

}  // namespace kvsim
