#pragma once

#include <vector>

#include "sim/tiers/miss_counts.h"
#include "sim/tiers/page_choices.h"
#include "sim/tiers/replacement.h"

namespace kvsim {

/// The misses of one replacement with so many places for older pages, `sizes`: ascending, at least
/// PageChoices::most_chosen(). `lru` and `belady` take one pass for all sizes (stack_misses.h), the
/// others one each. `mass` needs the choices' masses. Throws Interrupted.
MissCounts replace_pages(const PageChoices& choices, Replacement replacement,
                         std::vector<int> sizes);

}  // namespace kvsim
