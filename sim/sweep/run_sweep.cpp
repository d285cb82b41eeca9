#include "sim/sweep/run_sweep.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "sim/sweep/device_replays.h"
#include "sim/sweep/load_jobs.h"
#include "sim/sweep/read_ahead.h"
#include "sim/sweep/whole_layers.h"

namespace kvsim {
namespace {

/// How many jobs like this one to replay at once on the device; 1 if it replays none of it.
std::size_t jobs_at_once(const SweepPlan& plan, const SweepJob& job, const Backend& backend) {
  const DeviceReplays* device = backend.replays();
  if (device == nullptr || job.units.size() > 1) return 1;
  std::vector<Rules> rules;
  for (const PlannedReplay& replay : job.replays) {
    rules.push_back(*replay.rules);
    if (!device->can_replay(rules.back(), plan.request.protocol)) rules.pop_back();
  }
  if (rules.empty()) return 1;
  return device->units_at_once(replay_shape(plan, job), rules, plan.request.threads);
}

/// Runs of consecutive jobs to replay at once: jobs_at_once(), but few enough that every thread has
/// some.
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

/// The trajectories that a device's replays leave on the host: recall and error of each step and
/// query head, and when each token left.
std::size_t trajectory_bytes(const ReplayShape& shape) {
  if (!shape.trajectories) return 0;
  const std::size_t per_token = 2 * shape.group_size * sizeof(float) + sizeof(std::int32_t);
  return shape.configurations * shape.num_tokens * per_token;
}

/// Whether no later unit of the job in the plan is of the same layer: the layer's errors go with
/// its last unit.
bool is_last_of_layer(const SweepJob& job, std::size_t unit) {
  return std::none_of(job.units.begin() + static_cast<std::ptrdiff_t>(unit) + 1, job.units.end(),
                      [&](const JobUnit& later) {
                        return later.planned && later.name.layer == job.units[unit].name.layer;
                      });
}

void report(const SweepPlan& plan, const SweepJob& job, JobOutcomes outcomes,
            const UnitFinished& finished) {
  for (std::size_t unit = 0; unit < job.units.size(); ++unit) {
    if (!job.units[unit].planned) continue;
    const PlannedUnit& planned = plan.units[*job.units[unit].planned];
    const bool has_layer = planned.in_whole_layer && is_last_of_layer(job, unit);
    std::vector<Outcome> of_unit;
    for (std::size_t r = 0; r < job.replays.size(); ++r) {
      Outcome& outcome = of_unit.emplace_back(std::move(outcomes[r][unit]));
      describe(plan, planned, job.replays[r], outcome.result);
      if (!has_layer) outcome.layer_error.reset();
      if (!outcome.layer_error) continue;
      outcome.layer_error->num_layers = num_caches(plan.traces[planned.trace], planned.unit.name);
    }
    finished(planned, std::move(of_unit));
  }
}

/// Threads that a group has for itself.
int threads_per_group(const SweepPlan& plan, std::size_t groups) {
  const auto at_once = static_cast<int>(std::max<std::size_t>(1, groups));
  return std::max(1, plan.request.threads / at_once);
}

ReplayOptions options_of(const SweepRequest& request, const std::atomic<bool>& interrupted) {
  return {.protocol = request.protocol,
          .seed = static_cast<std::uint64_t>(request.seed),
          .trajectories = request.trajectories,
          .selections = request.selections,
          .interrupted = &interrupted};
}

}  // namespace

std::size_t memory_bytes(const SweepPlan& plan, std::span<const SweepJob> jobs,
                         const Backend& backend) {
  const auto groups = group_jobs(plan, jobs, backend);
  std::size_t largest = 0;
  std::size_t ahead = 0;
  std::size_t planning = 0;
  for (const std::span<const SweepJob> group : groups) {
    std::size_t replays = 0;  // of one job at a time; a device's work lies in its own memory
    std::size_t recorded = 0;
    std::size_t recorded_steps = 0;
    for (const SweepJob& job : group) {
      const ReplayShape shape = replay_shape(plan, job);
      const std::size_t read = read_memory(shape);
      if (shape.oracles) planning = std::max(planning, planning_memory(shape));
      replays = std::max(replays, job.units.size() * (replay_memory(shape) - read));
      recorded += job.units.size() * read;
      if (group.size() > 1) recorded_steps += trajectory_bytes(shape);
    }
    largest = std::max(largest, recorded + replays + recorded_steps);
    ahead = std::max(ahead, recorded);
  }
  const int threads = plan.request.threads;
  // Of the first budget that a group plans, replay_memory() has it, in a table or next to it.
  const int more = threads_per_group(plan, groups.size()) - 1;
  largest += planning * static_cast<std::size_t>(more);
  return largest * std::min(static_cast<std::size_t>(threads), groups.size()) +
         read_ahead_memory(groups.size(), threads, ahead);
}

void run_sweep(const SweepPlan& plan, const Backend& backend, const std::atomic<bool>& interrupted,
               const UnitFinished& finished) {
  run_sweep(plan, jobs_of(plan), backend, interrupted, finished);
}

void run_sweep(const SweepPlan& plan, std::vector<SweepJob> jobs, const Backend& backend,
               const std::atomic<bool>& interrupted, const UnitFinished& finished) {
  const ReplayOptions options = options_of(plan.request, interrupted);
  std::mutex reporting;
  const auto run_all = [&](std::span<const SweepJob> part) {
    const JobLoader loader(plan, part, backend, interrupted);
    const auto groups = group_jobs(plan, part, backend);
    ReplayOptions own = options;
    own.planning_threads = threads_per_group(plan, groups.size());
    const auto load = [&](std::size_t i) {
      std::vector<ReplayJob> loaded;
      for (const SweepJob& job : groups[i]) loaded.push_back(loader.load(job));
      return loaded;
    };
    const auto replay = [&](std::size_t i, const std::vector<ReplayJob>& loaded) {
      std::vector<JobOutcomes> outcomes = replay_jobs(loaded, own, backend);
      // Not an OpenMP critical section: `finished` may throw out of it.
      const std::lock_guard<std::mutex> lock(reporting);
      for (std::size_t j = 0; j < groups[i].size(); ++j) {
        report(plan, groups[i][j], std::move(outcomes[j]), finished);
      }
    };
    in_parallel_with_read(groups.size(), plan.request.threads, interrupted, load, replay);
  };
  // Jobs that need no measurement of whole sequences first: their rows are kept even if a sequence
  // cannot be read.
  const auto measured = std::stable_partition(
      jobs.begin(), jobs.end(), [](const SweepJob& job) { return !job.needs_profiles; });
  const auto first = static_cast<std::size_t>(measured - jobs.begin());
  run_all(std::span(jobs).first(first));
  run_all(std::span(jobs).subspan(first));
}

std::vector<std::string> policies_on_cpu(const SweepPlan& plan, const Backend& backend) {
  const DeviceReplays* device = backend.replays();
  std::set<std::string> names;
  if (device == nullptr) return {};
  for (const PlannedUnit& unit : plan.units) {
    for (const PlannedReplay& replay : unit.remaining) {
      const Spec& policy = plan.policy_of(replay);
      const LayerInfo& layer = layer_info(plan.traces[unit.trace], unit.unit.name);
      const bool on_device = layer.gradient_samples == 0 && !unit.in_whole_layer &&
                             device->can_replay(*replay.rules, plan.request.protocol);
      if (!on_device) names.insert(policy.text());
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace kvsim
