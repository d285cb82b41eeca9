#pragma once

#include <span>
#include <vector>

#include "sim/sweep/allocate.h"
#include "sim/sweep/head_table.h"

namespace kvsim {

/// Throws DataError for a table whose numbers the allocation cannot split by: negative shares, a
/// share removed above 1, several rows that are not 99, several rows where one is expected.
void check_table(const AllocationSpec& allocation, const HeadTable& table);

/// Throws UsageError if `duo` has no split of this budget: a mean of less than sinks + recent.
void check_duo(const AllocationSpec& allocation, const TotalBudget& budget);

/// The budgets of allocate() for one that reads a file, from its table (fitted()).
///
/// - file: a table [99, layers, heads] has in row i the share of its tokens that each head loses at
///   compression ratio (i + 1) / 100. Of 1 - B / length the nearest of these ratios counts, halves
///   to the even one, and no other (LUKVPress.compress() of kvpress 0.5.5). Budgets are in
///   proportion to what heads keep. Layers are rounded first, then the heads of each, by largest
///   remainders. A table [layers, heads] has weights.
/// - duo: see check_duo(). Of n heads r keep the `most` tokens of the text, those of highest alpha
///   (limited to 0..1; of equals the first), the others sinks + recent, and the head that follows
///   the r gets what is left of B n.
/// - headkv (FYYFU/HeadKV, ReasonSnapKVCluster): with b = B - w and the pool p = b // beta of each
///   head, a head gets b - p + p n s of these, where s is its score over the sum of all.
std::vector<int> allocate_by_table(const AllocationSpec& allocation, const TotalBudget& budget,
                                   std::span<const UnitName> units, const HeadTable& table);

}  // namespace kvsim
