#include "analysis/analysis_costs.h"

#include <algorithm>

#include "sim/sweep/shards/job_cost.h"
#include "sim/sweep/shards/unit_cost.h"
#include "sim/sweep/sweep_jobs.h"

namespace kvsim {
namespace {

/// The time of one analysis, without the attention that all share.
std::int64_t own_nanoseconds(const std::string& name, const UnitSizes& unit) {
  if (name == "power-law") return unit.group * (60'000'000 + 35'000 * unit.tokens);
  const std::int64_t distances = 50 * unit.pairs();
  if (name == "clusters" || name == "cluster-growth") return distances;
  if (name == "subgen-bound") {  // and a factor of a matrix of values per step
    const std::int64_t dim = unit.value_dim;
    return distances + unit.tokens * dim * dim * dim / 8;
  }
  const bool compares =
      name == "regression" || name == "submodularity" || name == "residual-similarity";
  return (compares ? 30 : 4) * unit.pairs() * unit.group;
}

}  // namespace

AnalysisCosts::AnalysisCosts(const AnalysisPlan& plan, bool replays)
    : plan_(plan), of_replays_(plan.sweep.units.size(), 0) {
  if (!replays) return;
  for (const SweepJob& job : jobs_of(plan.sweep)) {
    const std::int64_t of_unit =
        estimated_nanoseconds(plan.sweep, job) / static_cast<std::int64_t>(job.units.size());
    for (const JobUnit& unit : job.units) {
      if (unit.planned) of_replays_[*unit.planned] += of_unit;
    }
  }
}

std::int64_t AnalysisCosts::of(const PlannedUnit& planned) const {
  const UnitSizes unit = unit_sizes(plan_.sweep, planned);
  const bool ahead = std::any_of(plan_.analyses.begin(), plan_.analyses.end(),
                                 [](const AnalysisSpec& spec) { return spec.info->looks_ahead; });
  std::int64_t sum = of_replays_[&planned - plan_.sweep.units.data()] + reading_nanoseconds(unit) +
                     (ahead ? 2 : 1) * reference_nanoseconds(unit, unit.pairs());
  for (const AnalysisSpec& spec : plan_.analyses) sum += own_nanoseconds(spec.info->name, unit);
  return sum;
}

}  // namespace kvsim
