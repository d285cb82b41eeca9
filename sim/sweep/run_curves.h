#pragma once

#include "policies/registry/spec_list.h"
#include "sim/curve/curve.h"
#include "sim/curve/error_budgets.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// Curves of policies on the selected units of some traces.
struct CurvePlan {
  SweepPlan sweep;  ///< its budgets are not used
  ErrorBudgets errors;

  /// An estimate of the memory that running it takes, in bytes.
  std::size_t memory_bytes() const;
};

/// For lists of curves: "all" is every policy with a curve, and "oracles" the one oracle with a
/// curve.
NamedSpecs specs_with_curves();

/// Opens the traces and lists the units. Throws UsageError for a policy without a curve, and what
/// plan_sweep() throws.
CurvePlan plan_curves(SweepRequest request, ErrorBudgets errors);

/// Called with the curves of one unit and their rows in the table `curve`, by one thread at a time.
using CurvesFinished = std::function<void(const PlannedUnit&, const std::vector<Curve>&,
                                          const std::vector<TableRows>&)>;

/// Computes the curves, units in parallel. Curves are parallel to the policies of the request; rows
/// are those of curve_schema(). After a failure or an interruption no further unit begins; finished
/// units have been reported. Then throws the failure of the first such unit, or Interrupted.
void run_curves(const CurvePlan& plan, const Backend& backend, const std::atomic<bool>& interrupted,
                const CurvesFinished& finished);

}  // namespace kvsim
