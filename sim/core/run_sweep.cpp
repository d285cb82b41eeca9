#include <algorithm>
#include <map>
#include <mutex>

#include "sim/core/allocate.h"
#include "sim/core/device_replays.h"
#include "sim/core/in_parallel.h"
#include "sim/core/replay_jobs.h"
#include "sim/core/schedule_file.h"
#include "sim/core/sweep.h"
#include "sim/core/sweep_jobs.h"

namespace kvsim {
namespace {

using SequenceKey = std::pair<std::size_t, std::string>;  // trace, sequence
using Profiles = std::map<SequenceKey, std::vector<UnitProfile>>;

SequenceKey sequence_of(const SweepJob& job) { return {job.trace, job.units.front().sequence}; }

Allocation allocation_of(const SweepPlan& plan, const PlannedReplay& replay) {
  return plan.request.policies[replay.policy].allocation();
}

/// Of every sequence whose budget some job splits, what the split depends on.
Profiles profiles_for(const SweepPlan& plan, std::span<const SweepJob> jobs, const Backend& backend,
                      const std::atomic<bool>& interrupted) {
  Profiles profiles;
  std::vector<std::pair<UnitProfile*, std::size_t>> to_measure;  // with the trace
  std::map<SequenceKey, bool> measured;
  for (const SweepJob& job : jobs) {
    for (const PlannedReplay& replay : job.replays) {
      const Allocation allocation = allocation_of(plan, replay);
      if (allocation == Allocation::uniform) continue;
      measured[sequence_of(job)] |= needs_measurement(allocation);
    }
  }
  for (const auto& [sequence, is_measured] : measured) {
    std::vector<UnitProfile>& units = profiles[sequence];
    for (UnitName& name : recorded_units(plan.traces[sequence.first], sequence.second)) {
      units.push_back({.name = std::move(name)});
    }
    if (!is_measured) continue;
    for (UnitProfile& unit : units) to_measure.emplace_back(&unit, sequence.first);
  }
  in_parallel(to_measure.size(), plan.request.threads, interrupted, [&](std::size_t i) {
    auto& [profile, trace] = to_measure[i];
    const Unit unit = plan.traces[trace].read_unit(profile->name);
    *profile = measure_profile(unit, plan.request.mode, backend);
  });
  return profiles;
}

/// What the units of the job have of the sequence's budget.
std::vector<int> budgets_of(const SweepJob& job, const std::vector<UnitProfile>& sequence,
                            Allocation allocation, int budget, int most) {
  const std::vector<int> shares = allocate(allocation, budget, most, sequence);
  std::vector<int> budgets;
  for (const UnitName& name : job.units) {
    const auto unit = std::find_if(sequence.begin(), sequence.end(), [&](const UnitProfile& u) {
      return u.name.layer == name.layer && u.name.kv_head == name.kv_head;
    });
    budgets.push_back(shares[unit - sequence.begin()]);
  }
  return budgets;
}

class JobRunner {
 public:
  JobRunner(const SweepPlan& plan, const Backend& backend, const std::atomic<bool>& interrupted,
            const Profiles& profiles)
      : plan_(plan), backend_(backend), interrupted_(interrupted), profiles_(profiles) {}

  /// Outcomes per job, per replay of it and unit.
  std::vector<JobOutcomes> run(std::span<const SweepJob> jobs) const {
    std::vector<ReplayJob> loaded;
    for (const SweepJob& job : jobs) loaded.push_back(load(job));
    const ReplayOptions options{.mode = plan_.request.mode,
                                .seed = static_cast<std::uint64_t>(plan_.request.seed),
                                .trajectories = plan_.request.trajectories,
                                .measuring = plan_.request.measuring,
                                .interrupted = &interrupted_};
    return replay_jobs(loaded, options, backend_);
  }

 private:
  ReplayJob load(const SweepJob& job) const {
    std::vector<Unit> units;
    const auto sees_kinds = [&](const PlannedReplay& replay) {
      return plan_.request.policies[replay.policy].rules({}).sees_kinds;
    };
    const UnitParts parts{.values = plan_.request.measuring.has_reference(),
                          .text = std::any_of(job.replays.begin(), job.replays.end(), sees_kinds)};
    for (const UnitName& name : job.units) {
      units.push_back(plan_.traces[job.trace].read_unit(name, parts));
    }
    std::vector<Configuration> configurations;
    for (const PlannedReplay& replay : job.replays) {
      configurations.push_back(configuration_of(job, replay, units));
    }
    return {std::move(units), std::move(configurations)};
  }

  Configuration configuration_of(const SweepJob& job, const PlannedReplay& replay,
                                 const std::vector<Unit>& units) const {
    const Spec& policy = plan_.request.policies[replay.policy];
    Configuration configuration{policy, replay.budget};
    const int num_tokens = units.front().num_tokens();
    if (policy.allocation() != Allocation::uniform) {
      // An estimator's budget counts keys and values.
      const int most = policy.is_estimator() ? 2 * num_tokens : num_tokens;
      configuration.budgets =
          budgets_of(job, profiles_.at(sequence_of(job)), policy.allocation(), replay.budget, most);
    }
    if (policy.policy().follows_schedule) {
      const ScheduleFile file(policy.schedule_file());
      const bool is_prefill = plan_.request.mode == Mode::prefill;
      for (std::size_t i = 0; i < units.size(); ++i) {
        const int first_eviction = is_prefill ? units[i].prompt_length - 1 : 0;
        configuration.schedules.push_back(
            file.read(units[i].name, num_tokens, first_eviction, configuration.budget_of(i)));
      }
    }
    return configuration;
  }

  const SweepPlan& plan_;
  const Backend& backend_;
  const std::atomic<bool>& interrupted_;
  const Profiles& profiles_;
};

/// How many jobs like this one the device wants at once; 1 for what it does not replay.
std::size_t jobs_at_once(const SweepPlan& plan, const SweepJob& job, const Backend& backend) {
  const DeviceReplays* device = backend.replays();
  if (device == nullptr || job.units.size() > 1 || !plan.request.measuring.has_reference()) {
    return 1;
  }
  std::vector<Rules> rules;
  for (const PlannedReplay& replay : job.replays) {
    rules.push_back(plan.request.policies[replay.policy].rules({.budget = replay.budget}));
    if (!device->can_replay(rules.back())) rules.pop_back();
  }
  if (rules.empty()) return 1;
  return device->units_at_once(replay_shape(plan, job), rules, plan.request.threads);
}

/// Jobs that follow each other and are replayed at once: as many as the device wants, as long as
/// every thread has some.
std::vector<std::span<const SweepJob>> group_jobs(const SweepPlan& plan,
                                                  std::span<const SweepJob> jobs,
                                                  const Backend& backend) {
  const auto threads = static_cast<std::size_t>(plan.request.threads);
  const std::size_t share = (jobs.size() + threads - 1) / threads;
  std::vector<std::span<const SweepJob>> groups;
  for (std::size_t begin = 0; begin < jobs.size(); begin += groups.back().size()) {
    const std::size_t most = std::min(share, jobs_at_once(plan, jobs[begin], backend));
    std::size_t count = 1;
    while (count < most && begin + count < jobs.size() && jobs[begin + count].units.size() == 1) {
      ++count;
    }
    groups.push_back(jobs.subspan(begin, count));
  }
  return groups;
}

void report(const SweepPlan& plan, const SweepJob& job, JobOutcomes outcomes,
            const UnitFinished& finished) {
  for (std::size_t unit = 0; unit < job.units.size(); ++unit) {
    if (!job.plans[unit]) continue;
    const PlannedUnit& planned = plan.units[*job.plans[unit]];
    std::vector<Outcome> of_unit;
    for (std::size_t r = 0; r < job.replays.size(); ++r) {
      Outcome& outcome = of_unit.emplace_back(std::move(outcomes[r][unit]));
      describe(plan, planned, job.replays[r], outcome.result);
    }
    finished(planned, std::move(of_unit));
  }
}

}  // namespace

void run_sweep(const SweepPlan& plan, const Backend& backend, const std::atomic<bool>& interrupted,
               const UnitFinished& finished) {
  std::vector<SweepJob> jobs = jobs_of(plan);
  std::mutex reporting;
  const auto run_all = [&](std::span<const SweepJob> part) {
    const Profiles profiles = profiles_for(plan, part, backend, interrupted);
    const JobRunner runner(plan, backend, interrupted, profiles);
    const auto groups = group_jobs(plan, part, backend);
    in_parallel(groups.size(), plan.request.threads, interrupted, [&](std::size_t i) {
      auto outcomes = runner.run(groups[i]);
      // Not an OpenMP critical section: an exception must not leave one.
      const std::lock_guard<std::mutex> lock(reporting);
      for (std::size_t j = 0; j < groups[i].size(); ++j) {
        report(plan, groups[i][j], std::move(outcomes[j]), finished);
      }
    });
  };
  // What needs no measurement of whole sequences first, so that nothing of it is lost if one of
  // them cannot be read.
  const auto measured = std::stable_partition(jobs.begin(), jobs.end(),
                                              [](const SweepJob& job) { return !job.is_measured; });
  const auto first = static_cast<std::size_t>(measured - jobs.begin());
  run_all(std::span(jobs).first(first));
  run_all(std::span(jobs).subspan(first));
}

}  // namespace kvsim
