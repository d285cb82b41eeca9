#include "sim/sweep/sweep_jobs.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/replay/score_replay.h"
#include "sim/results/regret.h"

namespace kvsim {
namespace {

// The units that a policy of this scope decides for together with the unit `name`, that included.
std::vector<JobUnit> units_decided_together(const Trace& trace, const UnitName& name, Scope scope) {
  if (scope == Scope::head) return {{name}};
  std::vector<JobUnit> units;
  for (UnitName& unit : recorded_units(trace, name.sequence)) {
    if (scope == Scope::model || unit.layer == name.layer) units.push_back({std::move(unit)});
  }
  return units;
}

// Replays with the same key belong to one job: needs_profiles, scope, trace, sequence, layer, head.
using JobKey = std::tuple<bool, Scope, std::size_t, std::string, int, int>;

JobKey key_of(const PlannedUnit& planned, Scope scope, bool needs_profiles) {
  const UnitName& name = planned.unit.name;
  return {needs_profiles,
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
      const Scope decides = replay.rules->scope;
      const bool of_layer =
          planned.in_whole_layer || plan.policy_of(replay).needs().output_projection;
      const Scope scope = of_layer && decides == Scope::head ? Scope::layer : decides;
      const bool needs_profiles = needs_measurement(plan.policy_of(replay).allocation());
      const auto [entry, is_new] =
          index.emplace(key_of(planned, scope, needs_profiles), jobs.size());
      if (is_new) {
        jobs.push_back({.trace = planned.trace,
                        .units = units_decided_together(plan.traces[planned.trace], name, scope),
                        .replays = {},
                        .needs_profiles = needs_profiles,
                        .whole_layers = false});
      }
      SweepJob& job = jobs[entry->second];
      job.whole_layers = job.whole_layers || of_layer;
      const auto unit =
          std::find_if(job.units.begin(), job.units.end(), [&](const JobUnit& candidate) {
            return candidate.name.layer == name.layer && candidate.name.kv_head == name.kv_head;
          });
      unit->planned = i;
      add(job.replays, replay);
    }
  }
  // Jobs of few units first: their rows are kept soonest, and a unit that cannot be read fails only
  // its own job.
  std::stable_sort(jobs.begin(), jobs.end(), [](const SweepJob& a, const SweepJob& b) {
    return a.units.size() < b.units.size();
  });
  return jobs;
}

bool plans_by_auction(const Spec& policy, std::size_t num_tokens) {
  const std::optional<int> from = policy.policy().auction_from;
  return from && num_tokens >= static_cast<std::size_t>(*from);
}

ReplayShape replay_shape(const SweepPlan& plan, const SweepJob& job) {
  const Protocol& protocol = plan.request.protocol;
  ReplayShape shape{.configurations = job.replays.size(),
                    .error_stride = static_cast<std::size_t>(protocol.error_stride),
                    .samples = static_cast<std::size_t>(protocol.samples),
                    .has_reference = protocol.has_reference(),
                    .reads_values = protocol.measures(),
                    .trajectories = plan.request.trajectories};
  int prompt = 0;
  for (const JobUnit& of_job : job.units) {
    if (!of_job.planned) continue;
    const SelectedUnit& unit = plan.units[*of_job.planned].unit;
    const ReplayShape of_unit = shape_of(unit);
    shape.num_tokens = of_unit.num_tokens;
    shape.group_size = std::max(shape.group_size, of_unit.group_size);
    shape.head_dim = std::max(shape.head_dim, of_unit.head_dim);
    shape.value_dim = std::max(shape.value_dim, of_unit.value_dim);
    prompt = protocol.first_measured(unit.prompt_length);
    const LayerInfo& layer = layer_info(plan.traces[job.trace], unit.name);
    if (protocol.measures())
      shape.gradient_samples = static_cast<std::size_t>(layer.gradient_samples);
    if (job.whole_layers) shape.hidden = static_cast<std::size_t>(layer.hidden);
  }
  std::set<std::pair<int, int>> stored;
  for (const PlannedReplay& replay : job.replays) {
    const Spec& policy = plan.policy_of(replay);
    const Rules& rules = *replay.rules;
    const int held_between = protocol.most_held(replay.budget);
    const auto most = static_cast<std::size_t>(std::max(held_between, prompt));
    const std::size_t held = rules.bounded ? std::min(most, shape.num_tokens) : shape.num_tokens;
    shape.held += held;
    if (rules.sees_values) shape.held_with_values += held;
    if (rules.slot_positions) ++shape.rotations;
    const auto steps = static_cast<std::size_t>(rules.remembered.steps);
    const auto covariances = static_cast<std::size_t>(rules.remembered.covariances);
    shape.remembered +=
        std::min(steps, shape.num_tokens) * held * rules.remembered.bytes_per_token +
        covariances * shape.group_size * shape.head_dim * shape.head_dim * sizeof(double);
    if (policy.policy().reads_scores) {
      constexpr std::size_t kCopies = 3;  // in the job, in its part and in the policy
      shape.remembered += job.units.size() * shape.num_tokens * kCopies * sizeof(float);
    }
    if (rules.joined) shape.remembered += job.units.size() * shape.num_tokens * sizeof(double);
    shape.reads_values |= rules.sees_values;
    // Up to half of the slots are gaps.
    const std::size_t slots = std::min(2 * held, shape.num_tokens);
    if (ScoreReplay::gathers(rules)) shape.gathered = std::max(shape.gathered, slots);
    if (rules.store) {
      const std::size_t dims = shape.head_dim + shape.value_dim;
      shape.remembered += job.units.size() * shape.num_tokens * dims * sizeof(float);
    }
    if (rules.stored) stored.emplace(rules.stored->bits, rules.stored->group);
    shape.needs_outputs |= policy.is_estimator() || rules.selects || !rules.is_exact();
    shape.oracles |= policy.is_oracle();
    shape.losses |= !has_regret(policy);
  }
  shape.stored_forms = stored.size();
  return shape;
}

}  // namespace kvsim
