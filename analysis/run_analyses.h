#pragma once

#include "analysis/analysis.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// Analyses of the selected units of some traces. The policies and budgets of `sweep` are replayed
/// for the analyses that read replays.
struct AnalysisPlan {
  std::vector<AnalysisSpec> analyses;
  std::vector<TableSchema> schemas;  ///< one per analysis, then that of the table `unit`
  SweepPlan sweep;
  std::vector<std::string> left_out;  ///< one message per analysis that was left out: why

  /// Estimated memory of run_analyses(), in bytes.
  std::size_t memory_bytes() const;
};

/// Opens the traces and lists the work. `request` may name no policy if no analysis needs one. An
/// analysis without the policies or the token ids that it needs is left out if `leave_out` is set;
/// else UsageError or DataError is thrown. Throws UsageError if no analysis is left, and what
/// plan_sweep() throws.
AnalysisPlan plan_analyses(std::vector<AnalysisSpec> analyses, SweepRequest request,
                           bool leave_out);

/// Called with the rows of one unit, tables parallel to AnalysisPlan::schemas. Calls do not
/// overlap.
using UnitAnalysed = std::function<void(const PlannedUnit&, const std::vector<TableRows>&)>;

/// Runs the plan, one sequence after the other, the units of a sequence in parallel. The replays of
/// a sequence run first. After a failure or an interruption no further unit is begun, the finished
/// units have been reported, and the failure of the first failed unit or Interrupted is thrown.
void run_analyses(AnalysisPlan& plan, const Backend& backend, const std::atomic<bool>& interrupted,
                  const UnitAnalysed& finished);

}  // namespace kvsim
