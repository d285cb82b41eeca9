#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvsim {

/// Misses per step of one cache.
struct Misses {
  std::int64_t sum = 0;
  double mean = 0;
  double p95 = 0;  ///< linearly interpolated between neighbours
  std::int64_t max = 0;
};

/// Counts how many steps have how many misses, for caches of several sizes. Takes 4 bytes per size
/// and number of misses.
class MissCounts {
 public:
  /// `sizes` are ascending, in pages.
  explicit MissCounts(std::vector<int> sizes);

  const std::vector<int>& sizes() const { return sizes_; }

  /// Adds a step of caches that nest: each number in `needed` is the smallest size with which an
  /// access hits, ascending.
  void add_nested(std::span<const int> needed);

  /// Adds a step of the cache of one size, by its index.
  void add(std::size_t size, int misses);

  /// Per size, over `steps` steps, those without a miss included, which need not have been added.
  std::vector<Misses> over(std::int64_t steps) const;

 private:
  void add_range(std::size_t first, std::size_t end, std::size_t misses);
  std::size_t first_of_at_least(int size) const;

  std::vector<int> sizes_;
  std::vector<std::size_t> index_of_;  // per size up to the largest: the first size of at least it
  // Per number of misses and size: the number of steps, less that of the size before.
  std::vector<std::vector<std::int32_t>> changes_;
};

}  // namespace kvsim
