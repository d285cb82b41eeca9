#pragma once

#include "sim/core/curve.h"
#include "sim/core/error_budgets.h"
#include "sim/core/sweep.h"

namespace kvsim {

/// Curves of policies on the selected units of some traces.
struct CurvePlan {
  SweepPlan sweep;  ///< its traces and units; what it says of budgets is not used
  ErrorBudgets errors;

  /// An estimate of the memory that running it takes, in bytes.
  std::size_t memory_bytes() const;
};

/// Opens the traces and lists the units. Throws UsageError for a policy that has no curve, and what
/// plan_sweep() throws.
CurvePlan plan_curves(SweepRequest request, ErrorBudgets errors);

/// Called with the rows of one unit, by one thread at a time.
using CurvesFinished = std::function<void(const PlannedUnit&, const std::vector<Curve>&,
                                          const std::vector<std::vector<Value>>& rows)>;

/// Computes the curves, units in parallel. Curves are parallel to the policies of the request; rows
/// are those of curve_schema(). After a failure or an interruption no further unit is begun; those
/// that were finished have been reported. Then throws: the failure of the first such unit, or
/// Interrupted.
void run_curves(const CurvePlan& plan, const Backend& backend, const std::atomic<bool>& interrupted,
                const CurvesFinished& finished);

}  // namespace kvsim
