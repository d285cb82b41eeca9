#include "sim/tiers/miss_counts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvsim {
namespace {

constexpr int kLargestInTable = 1 << 20;

/// `with` is per number of misses: how many of the steps have it.
Misses misses_of(const std::vector<std::int64_t>& with, std::int64_t steps) {
  Misses misses;
  if (steps == 0) return misses;
  for (std::size_t number = 1; number < with.size(); ++number) {
    misses.sum += static_cast<std::int64_t>(number) * with[number];
    if (with[number] > 0) misses.max = static_cast<std::int64_t>(number);
  }
  misses.mean = static_cast<double>(misses.sum) / static_cast<double>(steps);
  const auto at_rank = [&](std::int64_t rank) {
    std::size_t number = 0;
    for (std::int64_t below = with[0]; below <= rank; below += with[number]) ++number;
    return static_cast<double>(number);
  };
  const double position = 0.95 * static_cast<double>(steps - 1);
  const auto below = static_cast<std::int64_t>(position);
  misses.p95 = at_rank(below);
  if (below + 1 < steps) {
    misses.p95 += (position - std::floor(position)) * (at_rank(below + 1) - misses.p95);
  }
  return misses;
}

}  // namespace

MissCounts::MissCounts(std::vector<int> sizes) : sizes_(std::move(sizes)) {
  std::size_t index = 0;
  // A table for the sizes of texts; larger ones are searched for.
  const int largest = sizes_.empty() ? -1 : std::min(sizes_.back(), kLargestInTable);
  for (int size = 0; size <= largest; ++size) {
    while (sizes_[index] < size) ++index;
    index_of_.push_back(index);
  }
}

std::size_t MissCounts::first_of_at_least(int size) const {
  const auto place = static_cast<std::size_t>(size);
  if (place < index_of_.size()) return index_of_[place];
  return static_cast<std::size_t>(std::lower_bound(sizes_.begin(), sizes_.end(), size) -
                                  sizes_.begin());
}

void MissCounts::add_range(std::size_t first, std::size_t end, std::size_t misses) {
  if (changes_.size() < misses) changes_.resize(misses);
  std::vector<std::int32_t>& changes = changes_[misses - 1];
  if (changes.empty()) changes.resize(sizes_.size() + 1);
  ++changes[first];
  --changes[end];
}

void MissCounts::add_nested(std::span<const int> needed) {
  std::size_t first = 0;
  for (std::size_t hits = 0; hits < needed.size() && first < sizes_.size(); ++hits) {
    const std::size_t end = first_of_at_least(needed[hits]);
    if (end > first) add_range(first, end, needed.size() - hits);
    first = std::max(first, end);
  }
}

void MissCounts::add(std::size_t size, int misses) {
  if (misses > 0) add_range(size, size + 1, static_cast<std::size_t>(misses));
}

std::vector<Misses> MissCounts::over(std::int64_t steps) const {
  std::vector<Misses> of_sizes;
  std::vector<std::int64_t> with(changes_.size() + 1);  // steps with so many misses, at a size
  for (std::size_t size = 0; size < sizes_.size(); ++size) {
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if (!changes_[i].empty()) with[i + 1] += changes_[i][size];
    }
    with[0] = steps - std::accumulate(with.begin() + 1, with.end(), std::int64_t{0});
    of_sizes.push_back(misses_of(with, steps));
  }
  return of_sizes;
}

}  // namespace kvsim
