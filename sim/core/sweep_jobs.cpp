#include "sim/core/sweep_jobs.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/core/allocate.h"
#include "sim/core/score_replay.h"

namespace kvsim {
namespace {

Scope scope_of(const SweepPlan& plan, const PlannedReplay& replay) {
  return plan.request.policies[replay.policy].rules({.budget = replay.budget}).scope;
}

// The units that a policy of this scope decides for together with the planned one.
std::vector<UnitName> together_with(const Trace& trace, const UnitName& name, Scope scope) {
  if (scope == Scope::head) return {name};
  std::vector<UnitName> units = recorded_units(trace, name.sequence);
  if (scope == Scope::layer) {
    std::erase_if(units, [&](const UnitName& unit) { return unit.layer != name.layer; });
  }
  return units;
}

// Units that a job of this scope has in common: its key, beside the scope itself.
using JobKey = std::tuple<bool, Scope, std::size_t, std::string, int, int>;

JobKey key_of(const PlannedUnit& planned, Scope scope, bool is_measured) {
  const UnitName& name = planned.unit.name;
  return {is_measured,
          scope,
          planned.trace,
          name.sequence,
          scope == Scope::model ? 0 : name.layer,
          scope == Scope::head ? name.kv_head : 0};
}

void add(std::vector<PlannedReplay>& replays, const PlannedReplay& wanted) {
  const auto same = [&](const PlannedReplay& other) {
    return other.policy == wanted.policy && other.budget == wanted.budget;
  };
  if (std::none_of(replays.begin(), replays.end(), same)) replays.push_back(wanted);
}

}  // namespace

std::vector<UnitName> recorded_units(const Trace& trace, const std::string& sequence) {
  std::vector<UnitName> names;
  Selection all;
  all.sequences = {sequence};
  for (const SelectedUnit& unit : select_units(trace, all)) names.push_back(unit.name);
  return names;
}

std::vector<SweepJob> jobs_of(const SweepPlan& plan) {
  std::vector<SweepJob> jobs;
  std::map<JobKey, std::size_t> index;
  for (std::size_t i = 0; i < plan.units.size(); ++i) {
    const PlannedUnit& planned = plan.units[i];
    const UnitName& name = planned.unit.name;
    for (const PlannedReplay& replay : planned.remaining) {
      const Scope scope = scope_of(plan, replay);
      const bool is_measured = needs_measurement(plan.request.policies[replay.policy].allocation());
      const auto [entry, is_new] = index.emplace(key_of(planned, scope, is_measured), jobs.size());
      if (is_new) {
        SweepJob& job = jobs.emplace_back();
        job.trace = planned.trace;
        job.is_measured = is_measured;
        job.units = together_with(plan.traces[planned.trace], name, scope);
        job.plans.resize(job.units.size());
      }
      SweepJob& job = jobs[entry->second];
      const auto place =
          std::find_if(job.units.begin(), job.units.end(), [&](const UnitName& unit) {
            return unit.layer == name.layer && unit.kv_head == name.kv_head;
          });
      job.plans[place - job.units.begin()] = i;
      add(job.replays, replay);
    }
  }
  // Few units at a time first: their rows are kept soonest, and one unit that cannot be read
  // spoils no other's.
  std::stable_sort(jobs.begin(), jobs.end(), [](const SweepJob& a, const SweepJob& b) {
    return a.units.size() < b.units.size();
  });
  return jobs;
}

ReplayShape replay_shape(const SweepPlan& plan, const SweepJob& job) {
  const TraceHeader& header = plan.traces[job.trace].header();
  const Measuring& measuring = plan.request.measuring;
  ReplayShape shape{.group_size = static_cast<std::size_t>(header.group_size()),
                    .head_dim = static_cast<std::size_t>(header.head_dim),
                    .value_dim = static_cast<std::size_t>(header.value_dim),
                    .configurations = job.replays.size(),
                    .every = static_cast<std::size_t>(measuring.every),
                    .has_reference = measuring.has_reference(),
                    .trajectories = plan.request.trajectories};
  int prompt = 0;
  for (const auto& planned : job.plans) {
    if (!planned) continue;
    const SelectedUnit& unit = plan.units[*planned].unit;
    shape.num_tokens = static_cast<std::size_t>(unit.num_tokens);
    prompt = plan.request.mode == Mode::prefill ? unit.prompt_length : 0;
  }
  std::set<std::pair<int, int>> stored;
  for (const PlannedReplay& replay : job.replays) {
    const Spec& policy = plan.request.policies[replay.policy];
    const Rules rules = policy.rules({.budget = replay.budget});
    const auto most = static_cast<std::size_t>(std::max(replay.budget, prompt));
    const std::size_t held = rules.bounded ? std::min(most, shape.num_tokens) : shape.num_tokens;
    shape.held += held;
    const auto steps = static_cast<std::size_t>(rules.remembered.steps);
    shape.remembered += std::min(steps, shape.num_tokens) * held * rules.remembered.bytes_per_token;
    // As many slots are gaps as are not.
    const std::size_t slots = std::min(2 * held, shape.num_tokens);
    if (ScoreReplay::gathers(rules)) shape.gathered = std::max(shape.gathered, slots);
    if (rules.stored) stored.emplace(rules.stored->bits, rules.stored->group);
    shape.needs_outputs |= policy.is_estimator() || rules.selects || !rules.is_exact();
    shape.oracles |= policy.is_oracle();
  }
  shape.stored_forms = stored.size();
  return shape;
}

}  // namespace kvsim
