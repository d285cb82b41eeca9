#pragma once

#include <iosfwd>
#include <map>

#include "sim/core/run_curves.h"

namespace kvsim::cli {

/// Means over units at a dozen budgets, policies side by side.
class CurveSummary {
 public:
  void add(const PlannedUnit& unit, const std::vector<Curve>& curves);
  void write(std::ostream& out, const CurvePlan& plan) const;

 private:
  // Per policy and budget of the summary: the mean recall of one unit. Ordered as in the plan, so
  // that sums do not depend on which unit is finished first.
  std::map<const PlannedUnit*, std::vector<std::vector<double>>> recall_;
};

}  // namespace kvsim::cli
