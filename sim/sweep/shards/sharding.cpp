#include "sim/sweep/shards/sharding.h"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "sim/sweep/shards/work_items.h"
#include "sim/sweep/sweep_jobs.h"
#include "traces/sha256.h"

namespace kvsim {
namespace {

/// A digest of how work is partitioned: the same for all shards of one command, on whatever
/// machine and under whatever path the traces lie.
class Study {
 public:
  Study(const std::string& what, const SweepPlan& plan, int num_shards) {
    text_ = fmt::format("{}\n{} {} {}\n", what, plan.mode(), plan.request.seed, num_shards);
    for (const Spec& policy : plan.request.policies) text_ += policy.text() + '\n';
    for (const Trace& trace : plan.traces) text_ += trace.id() + '\n';
  }

  void add_unit(const PlannedUnit& planned) {
    const UnitName& name = planned.unit.name;
    text_ += fmt::format("{} {} {} {}\n", planned.trace, name.sequence, name.layer, name.kv_head);
  }

  void add_replays(const std::vector<PlannedReplay>& replays) {
    for (const PlannedReplay& replay : replays) {
      text_ += fmt::format("{} {}\n", replay.policy, replay.budget);
    }
  }

  void deal_to(int shard) { text_ += fmt::format("to {}\n", shard); }

  std::string digest() const { return sha256(text_).substr(0, 16); }

 private:
  std::string text_;
};

/// The shard of each of these items. Notes in `plan` what the shards share out.
std::vector<int> partition_plan(SweepPlan& plan, const Shard& shard,
                                const std::vector<std::int64_t>& costs) {
  std::vector<int> of_items = kvsim::partition(costs, shard.count);
  double own = 0;
  for (std::size_t item = 0; item < costs.size(); ++item) {
    if (of_items[item] == shard.index) own += static_cast<double>(costs[item]);
  }
  const double all = std::accumulate(costs.begin(), costs.end(), 0.0);
  plan.whole_work = {plan.units.size(), plan.num_replays(), all == 0 ? 0 : own / all};
  return of_items;
}

}  // namespace

void keep_shard(SweepPlan& plan, const Shard& shard) {
  if (shard.is_all()) return;
  const std::vector<SweepJob> jobs = jobs_of(plan);
  const std::vector<WorkItem> items = work_items(plan, jobs);
  std::vector<std::int64_t> costs;
  for (const WorkItem& item : items) costs.push_back(item.nanoseconds);
  const std::vector<int> of_items = partition_plan(plan, shard, costs);
  std::vector<int> shards(jobs.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (const std::size_t job : items[i].jobs) shards[job] = of_items[i];
  }
  Study study("sweep", plan, shard.count);
  std::vector<std::set<std::pair<std::size_t, int>>> kept(plan.units.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (const JobUnit& unit : jobs[i].units) {
      if (!unit.planned) continue;
      study.add_unit(plan.units[*unit.planned]);
      if (shards[i] != shard.index) continue;
      for (const PlannedReplay& replay : jobs[i].replays) {
        kept[*unit.planned].emplace(replay.policy, replay.budget);
      }
    }
    study.add_replays(jobs[i].replays);
    study.deal_to(shards[i]);
  }
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    PlannedUnit& unit = plan.units[u];
    std::erase_if(unit.replays, [&](const PlannedReplay& replay) {
      return !kept[u].contains({replay.policy, replay.budget});
    });
    unit.remaining = unit.replays;
  }
  std::erase_if(plan.units, [](const PlannedUnit& unit) { return unit.replays.empty(); });
  plan.request.shard = shard;
  plan.study = study.digest();
}

void keep_shard_of_units(SweepPlan& plan, const Shard& shard, const UnitWork& work) {
  if (shard.is_all()) return;
  using Group = std::tuple<std::size_t, std::string, int, int>;
  std::map<Group, std::size_t> groups;
  std::vector<std::size_t> group_of;
  std::vector<std::int64_t> costs;
  for (const PlannedUnit& unit : plan.units) {
    const UnitName& name = unit.unit.name;
    const Group group{unit.trace, name.sequence, work.grain == Grain::sequence ? 0 : name.layer,
                      work.grain == Grain::head ? name.kv_head : 0};
    group_of.push_back(groups.emplace(group, costs.size()).first->second);
    costs.resize(groups.size());
    costs[group_of.back()] += work.cost(unit);
  }
  const std::vector<int> of_groups = partition_plan(plan, shard, costs);
  Study study(work.what, plan, shard.count);
  std::vector<PlannedUnit> kept;
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    study.add_unit(plan.units[u]);
    study.add_replays(plan.units[u].replays);
    study.deal_to(of_groups[group_of[u]]);
    if (of_groups[group_of[u]] == shard.index) kept.push_back(plan.units[u]);
  }
  plan.units = std::move(kept);
  plan.request.shard = shard;
  plan.study = study.digest();
}

std::string note_of_shard(const SweepPlan& plan, std::string_view what) {
  const Shard& shard = plan.request.shard;
  if (shard.is_all() || plan.units.empty()) return "";
  const bool replays = what == "replay";
  return fmt::format("shard {}: {} of {} {}s, about {:.1f}% of the work", shard_name(shard),
                     replays ? plan.num_replays() : plan.units.size(),
                     replays ? plan.whole_work.replays : plan.whole_work.units, what,
                     100 * plan.whole_work.share);
}

std::string note_of_empty_shard(const SweepPlan& plan) {
  const Shard& shard = plan.request.shard;
  if (shard.is_all() || !plan.units.empty()) return "";
  return fmt::format(
      "shard {}: nothing to do, as the work has fewer parts than shards; its result file says so",
      shard_name(shard));
}

}  // namespace kvsim
