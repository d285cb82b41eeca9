#pragma once

#include "sim/replay/planner.h"

namespace kvsim {

/// When to stop improving the prices.
struct CertificateLimits {
  double gap = 0.01;  ///< between bound and schedule, relative to the attention retained
  int passes = 300;   ///< over the attention; every better bound takes three more, which do not
                      ///< count, to round a schedule
};

struct Certificate {
  Schedule schedule;
  std::vector<double> slot_price;  ///< [n], the prices that prove the bound
  double attention = 0;            ///< retained by the schedule, summed over measured steps
  double bound = 0;                ///< no schedule retains more
  int passes = 0;
};

/// Bounds the attention that any schedule can retain at `budget` by Lagrangian duality, and
/// improves the prices until bound and schedule are close to each other (oracle/README.md). One
/// pass takes O(n²) time; rounding a schedule takes 2 n (n + 1) bytes beside the attention.
Certificate certify(const FutureAttention& attention, int budget, const CertificateLimits& limits);

/// The bound that given prices prove: one per step, at least 0. The prices of steps that
/// do not evict and of the last step are taken as 0.
double dual_bound(const FutureAttention& attention, int budget,
                  const std::vector<double>& slot_price);

}  // namespace kvsim
