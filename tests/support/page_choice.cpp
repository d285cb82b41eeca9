#include "tests/support/page_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvsim::test_support {

bool indistinguishable(double a, double b) {
  return std::abs(a - b) <=
         1e-5 * std::max(std::abs(a), std::abs(b)) + double{std::numeric_limits<float>::min()};
}

std::vector<int> PageChoice::leaving(int t, const std::vector<std::int32_t>& other, int& followed) {
  const int excess = static_cast<int>(attended.size()) - budget;
  const int dropped = (excess + drop - 1) / drop * drop;
  std::vector<int> tokens;
  for (int left = 0; left < excess || left + paging.size <= dropped; left += paging.size) {
    const std::vector<int> pages = candidates(t);
    if (pages.empty()) break;
    int others = -1;
    for (const int j : attended) {
      if (other[static_cast<std::size_t>(j)] == t && others < 0) others = page_of(j);
    }
    const int victim = score.empty() ? others : choose(pages, others, followed);
    for (int j = victim * paging.size; j < (victim + 1) * paging.size; ++j) {
      attended.erase(j);
      unprotected.erase(j);
      tokens.push_back(j);
    }
  }
  return tokens;
}

// Complete pages without a protected token. Where these do not free enough, the oldest pages of the
// protected newest tokens.
std::vector<int> PageChoice::candidates(int t) const {
  std::set<int> complete;
  for (const int j : attended) {
    const bool is_first = protected_first > 0 && page_of(j) <= page_of(protected_first - 1) &&
                          page_of(j) < budget / paging.size - 1;
    if (page_of(j) != page_of(t) && !is_first) complete.insert(page_of(j));
  }
  std::set<int> free = complete;
  for (const int j : attended) {
    if (!unprotected.contains(j)) free.erase(page_of(j));
  }
  if (free.empty() && static_cast<int>(attended.size()) > budget) free.insert(*complete.begin());
  return {free.begin(), free.end()};
}

int PageChoice::choose(const std::vector<int>& pages, int others, int& followed) const {
  int victim = pages.front();
  for (const int page : pages) {
    if (score_of(page) < score_of(victim)) victim = page;
  }
  const bool is_other = others >= 0 && others != victim &&
                        std::find(pages.begin(), pages.end(), others) != pages.end();
  if (!is_other || score_of(others) == score_of(victim) ||
      !indistinguishable(score_of(others), score_of(victim))) {
    return victim;
  }
  ++followed;
  return others;
}

double PageChoice::score_of(int page) const {
  double sum = 0;
  double most = -std::numeric_limits<double>::infinity();
  double least = std::numeric_limits<double>::infinity();
  for (int j = page * paging.size; j < (page + 1) * paging.size; ++j) {
    sum += score.at(j);
    most = std::max(most, score.at(j));
    least = std::min(least, score.at(j));
  }
  if (paging.score == PageScore::max) return most;
  return paging.score == PageScore::min ? least : sum / paging.size;
}

}  // namespace kvsim::test_support
