#include "sim/cache/page_candidates.h"

#include <algorithm>
#include <limits>

namespace kvsim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

double page_score(std::span<const double> scores, PageScore rule) {
  if (rule == PageScore::max) return *std::max_element(scores.begin(), scores.end());
  if (rule == PageScore::min) return *std::min_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double score : scores) {
    if (score == kInfinity) return kInfinity;  // also where another one is minus infinity
    sum += score;
  }
  return sum / static_cast<double>(scores.size());
}

Protection Protection::of(const Rules& rules, int budget, const Paging& paging) {
  if (paging.is_by_token()) {
    const int first = std::min(rules.protect_first, budget);
    return {first, std::min(rules.protect_newest, budget - first)};
  }
  const int pages = budget / paging.size - 1;
  const int first = paging.pages_for(std::min(rules.protect_first, pages * paging.size));
  const int newest = (pages - first) * paging.size + 1;
  return {first * paging.size, std::min(rules.protect_newest, newest)};
}

std::vector<PageCandidate> page_candidates(std::span<const std::int32_t> tokens,
                                           std::span<const double> scores, const Paging& paging,
                                           const Protection& protection, bool prunes) {
  const auto size = static_cast<std::size_t>(paging.size);
  const std::int32_t newest = tokens.back();
  // Of the newest token's page, and of the oldest protected one.
  const int page_end =
      std::min(paging.page_of(newest), paging.page_of(std::max(0, newest + 1 - protection.newest)));
  std::vector<PageCandidate> candidates;
  for (std::size_t begin = 0; begin < tokens.size(); begin += size) {
    if (paging.page_of(tokens[begin]) >= page_end) break;
    if (tokens[begin] < protection.first) continue;
    const std::span<const double> own = scores.subspan(begin, size);
    const bool is_pruned = prunes && std::all_of(own.begin(), own.end(),
                                                 [](double score) { return score == -kInfinity; });
    candidates.push_back({begin, begin + size, page_score(own, paging.score), is_pruned});
  }
  return candidates;
}

std::size_t take_lowest(std::vector<PageCandidate>& candidates, std::size_t count) {
  const auto goes_first = [](const PageCandidate& a, const PageCandidate& b) {
    if (a.is_pruned != b.is_pruned) return a.is_pruned;
    return a.score != b.score ? a.score < b.score : a.begin < b.begin;
  };
  const auto pruned = static_cast<std::size_t>(
      std::count_if(candidates.begin(), candidates.end(),
                    [](const PageCandidate& page) { return page.is_pruned; }));
  count = std::min(std::max(count, pruned), candidates.size());
  if (count == 0) {
    candidates.clear();
    return 0;
  }
  const auto last = candidates.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(candidates.begin(), last, candidates.end(), goes_first);
  const PageCandidate& highest = candidates[count - 1];
  const auto is_equal = [&](const PageCandidate& page) {
    return page.score == highest.score && page.is_pruned == highest.is_pruned;
  };
  const auto tied = std::any_of(last, candidates.end(), is_equal)
                        ? std::count_if(candidates.begin(), last, is_equal)
                        : 0;
  candidates.erase(last, candidates.end());
  return static_cast<std::size_t>(tied);
}

}  // namespace kvsim
