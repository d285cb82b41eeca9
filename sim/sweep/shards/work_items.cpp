#include "sim/sweep/shards/work_items.h"

#include <map>
#include <utility>

#include "sim/sweep/shards/job_cost.h"

namespace kvsim {

std::vector<WorkItem> work_items(const SweepPlan& plan, const std::vector<SweepJob>& jobs) {
  std::vector<WorkItem> items;
  std::map<std::pair<std::size_t, std::string>, std::size_t> measured;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    std::size_t item = items.size();
    if (jobs[i].needs_profiles) {
      const std::pair sequence(jobs[i].trace, jobs[i].units.front().name.sequence);
      item = measured.emplace(sequence, item).first->second;
    }
    if (item == items.size()) items.emplace_back();
    items[item].jobs.push_back(i);
    items[item].nanoseconds += estimated_nanoseconds(plan, jobs[i]);
  }
  return items;
}

}  // namespace kvsim
