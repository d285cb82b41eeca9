#pragma once

#include <optional>

#include "oracle/assignment/certified_plan.h"
#include "oracle/auction/bidders.h"

namespace kvsim {

/// After which an auction gives up: where a bidder hardly has a choice, prices rise so far that the
/// pass for all budgets takes less time. Mostly 20 to 300 tokens are taken per token of the text.
struct AuctionLimits {
  long taken = 1000;                ///< tokens, per token of the text, in either auction
  long taken_at_least = 1'000'000;  ///< the same of a short text, in all
  long corrections = 1000;          ///< of the refinement, per bidder
};

/// The least sum of costs at one budget, by an auction (oracle/auction/README.md). Empty if an
/// auction or the refinement did not come to an end within the limits: after 1,000 n tokens taken,
/// at least a million, in either auction. Also empty if the plan is not is_proven(). Throws
/// Interrupted.
std::optional<CertifiedPlan> auction_plan(const Bidders& bidders, const EvictionSteps& steps,
                                          const AuctionLimits& limits = {});

}  // namespace kvsim
