#pragma once

#include "sim/core/planner.h"

namespace kvsim {

/// When to stop looking for better prices.
struct CertificateLimits {
  double gap = 0.01;  ///< between bound and schedule, relative to the schedule's attention
  int passes = 300;   ///< over the attention, not counting those that round schedules: three for
                      ///< every better bound
};

struct Certificate {
  Schedule schedule;
  std::vector<double> slot_price;  ///< the prices that prove the bound
  double attention = 0;            ///< that the schedule retains, summed over measured steps
  double bound = 0;                ///< no schedule retains more
  int passes = 0;
};

/// Bounds the attention that any schedule can retain at `budget` by Lagrangian duality, and looks
/// for prices and a schedule that come close to each other (oracle/README.md). One pass takes O(n²)
/// time; rounding a schedule takes 2 n (n + 1) bytes beside the attention.
Certificate certify(const FutureAttention& attention, int budget, const CertificateLimits& limits);

/// The bound that given prices prove; prices are at least 0, one per step. Of no use are prices of
/// steps before the first eviction and of the last step, which are read as 0.
double dual_bound(const FutureAttention& attention, int budget,
                  const std::vector<double>& slot_price);

}  // namespace kvsim
