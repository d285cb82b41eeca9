#pragma once

#include <vector>

#include "sim/replay/planner.h"

namespace kvsim {

/// A schedule with the least sum of costs L(j,t) of evicted tokens (oracle/README.md), and a proof.
struct CertifiedPlan {
  Schedule schedule;
  std::vector<double> slot_price;  ///< as Plan::slot_price; empty under an interval
  double loss = 0;                 ///< the costs of evicted tokens, summed
  double bound = 0;  ///< at most `loss`; no schedule that evicts at the same steps loses less
};

}  // namespace kvsim
