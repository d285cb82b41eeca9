#pragma once

#include <optional>

#include "oracle/auction/takers.h"
#include "oracle/certified_plan.h"

namespace kvsim {

/// The least sum of costs at one budget, by an auction (oracle/auction/README.md). Empty if it is
/// not proven: the prices did not become exact within `most_corrections` per taker, or bound and
/// loss differ by more than 1e-10 of the sum of all costs of tokens at their own steps. Throws
/// Interrupted.
std::optional<CertifiedPlan> auction_plan(const Takers& takers, const EvictionSteps& steps,
                                          int most_corrections = 1000);

}  // namespace kvsim
