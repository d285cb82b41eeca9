#pragma once

#include <cstdint>
#include <vector>

namespace kvsim {

/// Sorts numbers by their bits from `first_bit` on, ascending; those that agree there stay in their
/// order.
void radix_sort(std::vector<std::uint64_t>& numbers, int first_bit = 0);

/// Sorts numbers ascending; none may be NaN.
void sort_ascending(std::vector<double>& numbers);

}  // namespace kvsim
