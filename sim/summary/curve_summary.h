#pragma once

#include <iosfwd>
#include <map>

#include "sim/sweep/run_curves.h"

namespace kvsim {

/// The table that `kvsim curve` prints: the mean recall over units at a dozen budgets, one column
/// per policy.
class CurveSummary {
 public:
  void add(const CurvePlan& plan, const PlannedUnit& unit, const std::vector<Curve>& curves);
  void write(std::ostream& out, const CurvePlan& plan) const;

 private:
  // Mean recall of one unit, per policy and budget of the summary. Ordered as in the plan: sums do
  // not depend on which unit finishes first.
  std::map<const PlannedUnit*, std::vector<std::vector<double>>> recall_;
};

}  // namespace kvsim
