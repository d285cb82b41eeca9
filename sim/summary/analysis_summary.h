#pragma once

#include <iosfwd>
#include <map>
#include <vector>

#include "analysis/run_analyses.h"

namespace kvsim {

/// The summary that `kvsim analyze` prints: per analysis and layer, the means of some columns over
/// query heads and sequences.
class AnalysisSummary {
 public:
  void add(const AnalysisPlan& plan, const PlannedUnit& unit, const std::vector<TableRows>& tables);
  void write(std::ostream& out, const AnalysisPlan& plan) const;

 private:
  struct Mean {
    double sum = 0;
    std::int64_t count = 0;
  };
  struct Means {
    std::int64_t rows = 0;
    std::vector<Mean> columns;  // of AnalysisInfo::summary
  };
  using Group = std::vector<Value>;  // layer and the columns of AnalysisInfo::summary_by
  using Groups = std::map<Group, Means>;

  static Groups groups_of(const AnalysisInfo& info, const TableRows& table);

  // Ordered as in the plan: sums do not depend on which unit finishes first.
  std::map<const PlannedUnit*, std::vector<Groups>> units_;  // per analysis
};

}  // namespace kvsim
