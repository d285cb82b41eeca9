#pragma once

#include <stdexcept>
#include <vector>

#include "sim/replay/planner.h"

namespace kvsim {

/// A schedule with the least sum of costs L(j,t) of evicted tokens (oracle/README.md), and a proof.
struct CertifiedPlan {
  Schedule schedule;
  std::vector<double> slot_price;  ///< as Plan::slot_price; empty under an interval
  double loss = 0;                 ///< the costs of evicted tokens, summed
  /// From 0, as no cost is negative, to `loss`: no schedule that evicts at the same steps loses
  /// less.
  double bound = 0;
};

/// Whether loss and bound differ by at most 1e-10 of `total`, the sum of the costs of all tokens at
/// their own steps: sums of thousands of prices are rounded by less, and a schedule that is not the
/// best is mostly off by more.
inline bool is_proven(const CertifiedPlan& plan, double total) {
  return plan.loss - plan.bound <= 1e-10 * total;
}

/// No pass found prices that prove a schedule: a defect.
class UnprovenOptimum : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace kvsim
