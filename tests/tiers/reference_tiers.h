#pragma once

#include <cstdint>
#include <vector>

#include "sim/tiers/page_choices.h"
#include "sim/tiers/replacement.h"

namespace kvsim::tiers_test {

/// Misses per measured step of a device with `resident` pages, that of the step included: the order
/// of a step in the contract (section 17), word for word.
std::vector<int> reference_misses(const PageChoices& choices, Replacement replacement,
                                  int resident);

/// The fewest misses that any sequence of victims has. Takes exponential time.
int fewest_misses(const PageChoices& choices, int resident);

/// Choices of at most `most` pages by chance at each measured step; with masses.
PageChoices random_choices(int num_tokens, int page, int first_measured, int most,
                           std::uint64_t seed);

}  // namespace kvsim::tiers_test
