#pragma once

#include <optional>

#include "oracle/assignment/certified_plan.h"
#include "oracle/auction/bidders.h"

namespace kvsim {

/// The least sum of costs at one budget, by an auction (oracle/auction/README.md). Empty if the
/// prices did not become exact within `most_corrections` per bidder, or the plan is not
/// is_proven(). Throws Interrupted.
std::optional<CertifiedPlan> auction_plan(const Bidders& bidders, const EvictionSteps& steps,
                                          int most_corrections = 1000);

}  // namespace kvsim
