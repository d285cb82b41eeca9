#pragma once

#include <iosfwd>
#include <map>
#include <vector>

#include "sim/sweep/run_fetches.h"

namespace kvsim {

/// The tables that `kvsim fetch` prints: per selector how well its choice stands for the full
/// attention, and per selector, size and replacement what is fetched; of a curve the hit rate at a
/// dozen sizes. Means over units.
class FetchSummary {
 public:
  void add(const FetchPlan& plan, const PlannedUnit& unit, const std::vector<Fetches>& found);
  void write(std::ostream& out, const FetchPlan& plan) const;

 private:
  void write_choices(std::ostream& out, const FetchPlan& plan) const;
  void write_sizes(std::ostream& out, const FetchPlan& plan) const;
  void write_curves(std::ostream& out, const FetchPlan& plan) const;

  // Ordered as in the plan: sums do not depend on which unit finishes first.
  std::map<const PlannedUnit*, std::vector<Fetches>> found_;
};

}  // namespace kvsim
