#include "sim/sweep/load_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "sim/base/errors.h"
#include "sim/protocol/eviction_steps.h"
#include "sim/sweep/in_parallel.h"

namespace kvsim {

JobLoader::JobLoader(const SweepPlan& plan, std::span<const SweepJob> jobs, const Backend& backend,
                     const std::atomic<bool>& interrupted)
    : plan_(plan) {
  SplitTables read;
  std::map<SequenceKey, bool> is_measured;
  std::map<SequenceKey, std::set<int>> last_steps;
  for (const SweepJob& job : jobs) {
    for (const PlannedReplay& replay : job.replays) {
      const Spec& policy = plan.policy_of(replay);
      if (policy.policy().follows_schedule) {
        auto& file = schedules_[policy.file()];
        if (!file) file = std::make_unique<ScheduleFile>(policy.file());
      }
      if (policy.policy().reads_scores) {
        auto& file = scores_[policy.file()];
        if (!file) file = std::make_unique<ScoreFile>(policy.file());
      }
      const Allocation allocation = policy.allocation();
      if (allocation == Allocation::uniform) continue;
      is_measured[sequence_of(job)] |= needs_measurement(allocation);
      if (policy.allocation_spec().reads_file()) {
        const std::string& sequence = job.units.front().name.sequence;
        tables_.emplace(std::pair(sequence_of(job), policy.allocation_spec().file()),
                        fitted(read.of(policy), model_heads(plan.traces[job.trace], sequence)));
      }
      if (allocation != Allocation::adaptive && allocation != Allocation::cake) continue;
      const PolicyWindow window = window_of(policy, replay.budget);
      last_steps[sequence_of(job)].insert(window.voting_steps);
    }
  }
  struct Profiled {
    UnitProfile* profile;
    const Trace* trace;
    const std::set<int>* last_steps;
  };
  std::vector<Profiled> to_measure;
  for (const auto& [sequence, measure] : is_measured) {
    const Trace& trace = plan.traces[sequence.first];
    std::vector<UnitProfile>& units = profiles_[sequence];
    for (UnitName& name : recorded_units(trace, sequence.second)) {
      units.push_back({.name = std::move(name)});
    }
    if (!measure) continue;
    for (UnitProfile& unit : units) to_measure.push_back({&unit, &trace, &last_steps[sequence]});
  }
  const UnitParts parts{.gradients = false, .projection = false};
  in_parallel(to_measure.size(), plan.request.threads, interrupted, [&](std::size_t i) {
    const auto& [profile, trace, steps] = to_measure[i];
    *profile = measure_profile(trace->read_unit(profile->name, parts), plan.request.protocol,
                               backend, *steps);
  });
}

ReplayJob JobLoader::load(const SweepJob& job) const {
  const bool measures = plan_.request.protocol.measures();
  // What is measured needs the whole text at once.
  UnitParts parts{
      .vectors = measures, .values = measures, .text = false, .projection = job.whole_layers};
  for (const PlannedReplay& replay : job.replays) {
    parts.values |= replay.rules->sees_values;
    parts.text |= replay.rules->sees_kinds;
  }
  ReplayJob loaded{.units = {}, .configurations = {}, .whole_layers = job.whole_layers};
  for (const JobUnit& unit : job.units) {
    const Trace& trace = plan_.traces[job.trace];
    parts.gradients = measures && layer_info(trace, unit.name).gradient_samples > 0;
    loaded.units.push_back(trace.read_unit(unit.name, parts));
  }
  for (const PlannedReplay& replay : job.replays) {
    loaded.configurations.push_back(configuration_of(job, replay, loaded.units));
  }
  return loaded;
}

JobLoader::SequenceKey JobLoader::sequence_of(const SweepJob& job) {
  return {job.trace, job.units.front().name.sequence};
}

Configuration JobLoader::configuration_of(const SweepJob& job, const PlannedReplay& replay,
                                          const std::vector<Unit>& units) const {
  const Spec& policy = plan_.policy_of(replay);
  Configuration configuration{policy, replay.budget};
  if (policy.allocation() != Allocation::uniform) {
    configuration.budgets = budgets_of(job, replay, units.front());
  }
  if (policy.policy().reads_scores) {
    const ScoreFile& file = *scores_.at(policy.file());
    for (const Unit& unit : units) {
      const int count = replay.rules->prompt_only ? unit.prompt_length : unit.num_tokens();
      configuration.file_scores.push_back(file.read(unit.name, count, unit.token_ids));
    }
  }
  if (!policy.policy().follows_schedule) return configuration;
  const ScheduleFile& file = *schedules_.at(policy.file());
  const Protocol& protocol = plan_.request.protocol;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const int budget = policy.tokens_of(configuration.budget_of(i));
    const EvictionSteps steps(units[i].num_tokens(), units[i].prompt_length, protocol);
    const ScheduleLimits limits{.first_eviction = steps.first_eviction(),
                                .budget = budget,
                                .most_held = protocol.most_held(budget),
                                .page = protocol.paging.size};
    configuration.schedules.push_back(
        file.read(policy.tokens_of(replay.budget), units[i].name, units[i].num_tokens(), limits));
  }
  return configuration;
}

// The budgets of the job's units after the split over the whole sequence.
std::vector<int> JobLoader::budgets_of(const SweepJob& job, const PlannedReplay& replay,
                                       const Unit& unit) const {
  const Spec& policy = plan_.policy_of(replay);
  const std::vector<UnitProfile>& sequence = profiles_.at(sequence_of(job));
  // An estimator's samples have slots of their own, so it can use more vectors than the text has.
  const int most = policy.is_estimator()
                       ? std::numeric_limits<int>::max() / static_cast<int>(sequence.size())
                       : unit.num_tokens();
  if (policy.is_estimator() && replay.budget > most) {
    throw UsageError(
        fmt::format("{}: expected a budget of at most {} vectors to split over heads, found {}",
                    policy.text(), most, replay.budget));
  }
  // An estimator's budget counts keys and values.
  const int per_token = policy.is_estimator() ? 2 : 1;
  const TotalBudget total{
      .tokens = replay.budget,
      .most = most,
      .length = per_token * plan_.request.protocol.base(unit.num_tokens(), unit.prompt_length),
      .window = window_of(policy, replay.budget)};
  const AllocationSpec split = policy.allocation_spec();
  const auto table =
      tables_.find({sequence_of(job), split.reads_file() ? split.file() : std::string()});
  const std::vector<int> shares =
      allocate(split, total, sequence, table == tables_.end() ? nullptr : &table->second);
  std::vector<int> budgets;
  for (const JobUnit& of_job : job.units) {
    const auto own = std::find_if(sequence.begin(), sequence.end(), [&](const UnitProfile& u) {
      return u.name.layer == of_job.name.layer && u.name.kv_head == of_job.name.kv_head;
    });
    budgets.push_back(shares[own - sequence.begin()]);
  }
  return budgets;
}

}  // namespace kvsim
