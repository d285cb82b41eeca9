#include "sim/sweep/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim/sweep/job_cost.h"
#include "sim/sweep/sweep_jobs.h"
#include "traces/sha256.h"

namespace kvsim {
namespace {

/// A digest of what is dealt out, and to whom: the same for all shards of one command, on whatever
/// machine and under whatever path the traces lie.
class Study {
 public:
  explicit Study(const SweepPlan& plan) : plan_(plan) {
    text_ = fmt::format("{} {}\n", plan.mode(), plan.request.seed);
    for (const Spec& policy : plan.request.policies) text_ += policy.text() + '\n';
  }

  void add_unit(const PlannedUnit& planned) {
    const UnitName& name = planned.unit.name;
    text_ += fmt::format("{} {} {} {}\n", plan_.traces[planned.trace].id(), name.sequence,
                         name.layer, name.kv_head);
  }

  void add_replay(const PlannedReplay& replay) {
    text_ += fmt::format("{} {}\n", replay.policy, replay.budget);
  }

  void deal_to(int shard, const Shard& of) { text_ += fmt::format("{}/{}\n", shard, of.count); }

  std::string digest() const { return sha256(text_).substr(0, 16); }

 private:
  const SweepPlan& plan_;
  std::string text_;
};

/// The shard of each job. Jobs that need the same measurements of a sequence stay together.
std::vector<int> shards_of(const SweepPlan& plan, const std::vector<SweepJob>& jobs, int count) {
  std::map<std::pair<std::size_t, std::string>, std::size_t> measured;
  std::vector<std::size_t> items;
  std::vector<std::int64_t> costs;
  for (const SweepJob& job : jobs) {
    std::size_t item = costs.size();
    if (job.needs_profiles) {
      item = measured.emplace(std::pair(job.trace, job.units.front().name.sequence), item)
                 .first->second;
    }
    if (item == costs.size()) costs.push_back(0);
    costs[item] += estimated_nanoseconds(plan, job);
    items.push_back(item);
  }
  const std::vector<int> of_items = deal(costs, count);
  std::vector<int> shards;
  for (const std::size_t item : items) shards.push_back(of_items[item]);
  return shards;
}

}  // namespace

void keep_shard(SweepPlan& plan, const Shard& shard) {
  if (shard.is_all()) return;
  const std::vector<SweepJob> jobs = jobs_of(plan);
  const std::vector<int> shards = shards_of(plan, jobs, shard.count);
  Study study(plan);
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
    for (const PlannedReplay& replay : jobs[i].replays) study.add_replay(replay);
    study.deal_to(shards[i], shard);
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

void keep_shard_of_units(SweepPlan& plan, const Shard& shard, Grain grain,
                         const std::function<std::int64_t(const PlannedUnit&)>& cost) {
  if (shard.is_all()) return;
  using Key = std::tuple<std::size_t, std::string, int, int>;
  const auto key_of = [&](const PlannedUnit& unit) {
    const UnitName& name = unit.unit.name;
    return Key{unit.trace, name.sequence, grain == Grain::sequence ? 0 : name.layer,
               grain == Grain::head ? name.kv_head : 0};
  };
  std::map<Key, std::size_t> groups;
  std::vector<std::int64_t> costs;
  for (const PlannedUnit& unit : plan.units) {
    const auto [group, is_new] = groups.emplace(key_of(unit), costs.size());
    if (is_new) costs.push_back(0);
    costs[group->second] += cost(unit);
  }
  const std::vector<int> shards = deal(costs, shard.count);
  const auto shard_of = [&](const PlannedUnit& unit) { return shards[groups.at(key_of(unit))]; };
  Study study(plan);
  for (const PlannedUnit& unit : plan.units) {
    study.add_unit(unit);
    study.deal_to(shard_of(unit), shard);
  }
  std::erase_if(plan.units, [&](const PlannedUnit& unit) { return shard_of(unit) != shard.index; });
  plan.request.shard = shard;
  plan.study = study.digest();
}

}  // namespace kvsim
