#pragma once

#include "analysis/analysis.h"
#include "sim/core/sweep.h"

namespace kvsim {

/// Analyses of the selected units of some traces. What `sweep` names of policies and budgets is
/// replayed for the analyses that look at replays.
struct AnalysisPlan {
  std::vector<AnalysisSpec> analyses;
  std::vector<TableSchema> schemas;  ///< one per analysis, then that of the table `unit`
  SweepPlan sweep;
  std::vector<std::string> left_out;  ///< why analyses were left out

  /// An estimate of the memory that running it takes, in bytes.
  std::size_t memory_bytes() const;
};

/// Opens the traces and lists the work; `request` may name no policy if no analysis needs one.
/// With `leave_out`, analyses that lack policies or tokens are left out and noted, which else is an
/// error: UsageError or DataError. Throws UsageError if nothing is left, and what plan_sweep()
/// throws.
AnalysisPlan plan_analyses(std::vector<AnalysisSpec> analyses, SweepRequest request,
                           bool leave_out);

/// Called with the rows of one unit, tables parallel to AnalysisPlan::schemas, by one thread at a
/// time.
using UnitAnalysed = std::function<void(const PlannedUnit&, const std::vector<TableRows>&)>;

/// Analyses sequence after sequence, its units in parallel. Each unit's attention is computed once
/// for all analyses, after one more pass for its replays if there are any. After a failure or an
/// interruption no further unit is begun; those that were finished have been reported. Then throws:
/// the failure of the first such unit, or Interrupted.
void run_analyses(AnalysisPlan& plan, const Backend& backend, const std::atomic<bool>& interrupted,
                  const UnitAnalysed& finished);

}  // namespace kvsim
