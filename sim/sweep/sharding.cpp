#include "sim/sweep/sharding.h"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <optional>
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

/// Items that are dealt out, made of parts of the plan.
struct Items {
  std::vector<std::size_t> of_part;  ///< the item that each part belongs to
  std::vector<std::int64_t> costs;   ///< of each item

  /// Adds a part to the item with this key, or to one of its own.
  template <class Key>
  void add(std::map<Key, std::size_t>& known, const std::optional<Key>& key, std::int64_t cost) {
    std::size_t item = costs.size();
    if (key) item = known.emplace(*key, item).first->second;
    if (item == costs.size()) costs.push_back(0);
    costs[item] += cost;
    of_part.push_back(item);
  }

  /// The shard of each part. Notes in `plan` what the shards share out.
  std::vector<int> deal_out(SweepPlan& plan, const Shard& shard) const {
    const std::vector<int> of_items = deal(costs, shard.count);
    double own = 0;
    for (std::size_t item = 0; item < costs.size(); ++item) {
      if (of_items[item] == shard.index) own += static_cast<double>(costs[item]);
    }
    const double all = std::accumulate(costs.begin(), costs.end(), 0.0);
    plan.dealt = {plan.units.size(), plan.num_replays(), all == 0 ? 0 : own / all};
    std::vector<int> shards;
    for (const std::size_t item : of_part) shards.push_back(of_items[item]);
    return shards;
  }
};

/// Jobs that need the same measurements of a sequence are one item.
Items items_of(const SweepPlan& plan, const std::vector<SweepJob>& jobs) {
  using Sequence = std::pair<std::size_t, std::string>;
  std::map<Sequence, std::size_t> measured;
  Items items;
  for (const SweepJob& job : jobs) {
    std::optional<Sequence> sequence;
    if (job.needs_profiles) sequence.emplace(job.trace, job.units.front().name.sequence);
    items.add(measured, sequence, estimated_nanoseconds(plan, job));
  }
  return items;
}

}  // namespace

void keep_shard(SweepPlan& plan, const Shard& shard) {
  if (shard.is_all()) return;
  const std::vector<SweepJob> jobs = jobs_of(plan);
  const std::vector<int> shards = items_of(plan, jobs).deal_out(plan, shard);
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
  Items items;
  for (const PlannedUnit& unit : plan.units) {
    const UnitName& name = unit.unit.name;
    const Group group{unit.trace, name.sequence, work.grain == Grain::sequence ? 0 : name.layer,
                      work.grain == Grain::head ? name.kv_head : 0};
    items.add(groups, std::optional(group), work.cost(unit));
  }
  const std::vector<int> shards = items.deal_out(plan, shard);
  Study study(work.what, plan, shard.count);
  std::vector<PlannedUnit> kept;
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    study.add_unit(plan.units[u]);
    study.add_replays(plan.units[u].replays);
    study.deal_to(shards[u]);
    if (shards[u] == shard.index) kept.push_back(plan.units[u]);
  }
  plan.units = std::move(kept);
  plan.request.shard = shard;
  plan.study = study.digest();
}

std::string note_of_shard(const SweepPlan& plan, std::string_view what) {
  const Shard& shard = plan.request.shard;
  if (shard.is_all() || plan.units.empty()) return note_of_empty_shard(plan);
  const bool replays = what == "replay";
  return fmt::format("shard {}: {} of {} {}s, about {:.1f}% of the work", shard_name(shard),
                     replays ? plan.num_replays() : plan.units.size(),
                     replays ? plan.dealt.replays : plan.dealt.units, what, 100 * plan.dealt.share);
}

std::string note_of_empty_shard(const SweepPlan& plan) {
  const Shard& shard = plan.request.shard;
  if (shard.is_all() || !plan.units.empty()) return "";
  return fmt::format(
      "shard {}: nothing to do, as the work has fewer parts than shards; its result file says so",
      shard_name(shard));
}

}  // namespace kvsim
