#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/tiers/page_marks.h"

namespace kvsim {

/// What one step asks of the device.
struct TierStep {
  std::int32_t own_page;                ///< that of the step, which never leaves
  bool begins;                          ///< whether the step is its first
  std::span<const std::int32_t> pages;  ///< chosen, ascending
  const PageMarks& chosen;              ///< the same
};

/// The pages that the device holds under one replacement, in so many places for older pages.
class PageCache {
 public:
  virtual ~PageCache() = default;

  /// Takes the next step: first its page, if that begins, takes a place, then the chosen pages that
  /// are missing do, ascending; each time that leaves no place, a page that is not chosen leaves.
  /// Returns the number of chosen pages that were missing. No step may choose more pages than there
  /// are places.
  virtual int advance(const TierStep& step) = 0;
};

/// The page with the lowest score leaves, of equal ones the lower. `score` is by page, has to
/// outlive the cache and may change between steps.
std::unique_ptr<PageCache> make_scored_cache(int places, std::span<const double> score);

/// The page that took its place first leaves.
std::unique_ptr<PageCache> make_fifo_cache(int places, int num_pages);

/// A hand goes round the places, that of the step's own page included, and takes the first page
/// without a reference; it removes the references that it passes. A page has one from when it takes
/// its place, and again whenever it is chosen. The hand passes chosen pages and the step's own as
/// they are. A page takes the place of the one that left, and the hand stands after it.
std::unique_ptr<PageCache> make_clock_cache(int places, int num_pages);

}  // namespace kvsim
