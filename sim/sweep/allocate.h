#pragma once

#include <span>
#include <vector>

#include "policies/registry/allocation.h"
#include "sim/attention/attention.h"
#include "sim/replay/replay.h"

namespace kvsim {

/// What allocations measure of one unit: over the prompt in prefill mode, over the whole text in
/// stream mode, where the split then uses the future.
struct UnitProfile {
  UnitName name;
  /// Persistence::ratio() with the split in the middle, mean over the group's query heads.
  double persistence = 1;
  std::vector<double> window_attention;  ///< per token: summed over heads and the last 32 steps
};

/// Measures `unit`, from its full attention.
UnitProfile measure_profile(const Unit& unit, Mode mode, const Backend& backend);

/// The budget of each of a sequence's units, ordered by layer: at least 1, at most `most`; their
/// sum is `budget` B times their number, if `most` allows it. Heads of a layer have the same
/// budget, except with `adaptive` and where layers differ in their number of recorded heads.
///
/// - pyramid (PyramidKV): linear from 2 B - B / 20 in the first layer to B / 20 in the last.
/// - persistence: proportional to 1 / the layer's persistence, mean over its heads.
/// - adaptive (AdaKV): a fifth of B for every head; the rest of a layer goes to the heads with the
///   most attended tokens of the last 32 steps.
std::vector<int> allocate(Allocation allocation, int budget, int most,
                          std::span<const UnitProfile> units);

}  // namespace kvsim
