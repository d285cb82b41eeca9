#pragma once

#include <vector>

#include "sim/tiers/miss_counts.h"
#include "sim/tiers/page_choices.h"

namespace kvsim {

// Misses of caches of all sizes in one pass (Mattson, Gecsei, Slutz and Traiger 1970): what a
// smaller cache holds is part of what a larger one holds, so one order of the pages, the stack,
// stands for all; README.md says why this holds when a step needs several pages at once. Sizes are
// places for older pages, at least PageChoices::most_chosen(). Both throw Interrupted.

/// Of least recently used pages leaving. Takes the depth of the deepest chosen page per step.
MissCounts lru_misses(const PageChoices& choices, std::vector<int> sizes);

/// Of Belady's MIN (1966), by the priority stack of Mattson et al.: the page whose next access is
/// farthest leaves, of equal ones the lower. Takes O(pages) per step that begins a page or misses.
MissCounts belady_misses(const PageChoices& choices, std::vector<int> sizes);

}  // namespace kvsim
