#pragma once

#include "sim/replay/planner.h"

namespace kvsim {

/// When to stop improving the prices.
struct CertificateLimits {
  double gap = 0.01;  ///< between bound and schedule, relative to what is retained
  int passes = 300;   ///< over the losses; every better bound takes three more, which do not
                      ///< count, to round a schedule
};

struct Certificate {
  Schedule schedule;
  std::vector<double> slot_price;  ///< [n], the prices that prove the bound
  double retained = 0;             ///< by the schedule, summed over measured steps
  double bound = 0;                ///< no schedule retains more
  double total = 0;                ///< what a cache of all tokens retains: the rest is lost
  int passes = 0;
};

/// Bounds what any schedule can retain at `budget` by Lagrangian duality, and improves the prices
/// until bound and schedule are close to each other (oracle/README.md). Row t of `losses` is what
/// step t retains by each token that is there: of FutureAttention, attention. One pass takes O(n²)
/// time; rounding a schedule takes 2 n (n + 1) bytes in addition to the losses.
Certificate certify(const StepRows& losses, int budget, const CertificateLimits& limits);

/// The bound that given prices prove: one per step, at least 0. The prices of steps that
/// do not evict and of the last step are taken as 0.
double dual_bound(const StepRows& losses, int budget, const std::vector<double>& slot_price);

}  // namespace kvsim
