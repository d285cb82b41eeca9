#pragma once

#include <span>
#include <vector>

#include "policies/allocation.h"
#include "sim/core/attention.h"
#include "sim/core/replay.h"

namespace kvsim {

/// What allocations measure of one unit, over the steps that a cache sees in full: the prompt in
/// prefill mode. In stream mode there are none, and the whole text is measured instead, so that
/// the split knows what is to come.
struct UnitProfile {
  UnitName name;
  double persistence =
      1;  ///< ratio with the split in the middle, mean over the group's query heads
  std::vector<double> window_attention;  ///< per token: summed over the last 32 steps
};

UnitProfile measure_profile(const Unit& unit, Mode mode, const Backend& backend);

/// Whether the split follows from the layers alone, so that profiles need no measurements.
bool needs_measurement(Allocation allocation);

/// What each of a sequence's units, ordered by layer, may hold: at least 1, at most `most`, and in
/// sum `budget` times their number, if that many fit. Heads of a layer are treated alike, except by
/// `adaptive` and where layers differ in how many of their heads are recorded.
///
/// - pyramid: budgets fall evenly from 2 B - B / 20 in the first layer to B / 20 in the last.
/// - persistence: in proportion to 1 / persistence ratio of the layer, mean over its heads.
/// - adaptive: a fifth of B for every head; the rest of a layer goes to the heads whose tokens have
///   the most attention in the last 32 steps.
std::vector<int> allocate(Allocation allocation, int budget, int most,
                          std::span<const UnitProfile> units);

}  // namespace kvsim
