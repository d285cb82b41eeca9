#pragma once

#include <iosfwd>
#include <map>
#include <vector>

#include "analysis/run_analyses.h"

namespace kvsim::cli {

/// What `kvsim analyze` prints: of every analysis the means of some columns, over query heads and
/// sequences, per layer.
class AnalysisSummary {
 public:
  void add(const AnalysisPlan& plan, const PlannedUnit& unit, const std::vector<TableRows>& tables);
  void write(std::ostream& out, const AnalysisPlan& plan) const;

 private:
  struct Mean {
    double sum = 0;
    std::int64_t count = 0;
  };
  using Group = std::vector<Value>;  // layer and the columns of AnalysisInfo::summary_by
  using Means = std::map<Group, std::vector<Mean>>;

  struct OfUnit {
    std::vector<Means> means;            // per analysis
    std::vector<std::int64_t> num_rows;  // per analysis
  };

  // Ordered as in the plan, so that sums do not depend on which unit is finished first.
  std::map<const PlannedUnit*, OfUnit> units_;
};

}  // namespace kvsim::cli
