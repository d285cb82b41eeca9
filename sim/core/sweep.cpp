#include "sim/core/sweep.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "policies/errors.h"
#include "sim/core/device_replays.h"
#include "sim/core/memory.h"
#include "sim/core/schedule_file.h"
#include "sim/core/score_replay.h"
#include "sim/core/sweep_jobs.h"
#include "sim/core/version.h"
#include "traces/errors.h"
#include "traces/sha256.h"

namespace kvsim {
namespace {

std::vector<PlannedReplay> replays_of(const SweepRequest& request, const SelectedUnit& unit) {
  std::vector<PlannedReplay> replays;
  for (const Amount& amount : request.budgets) {
    const int budget = amount.of(budget_base(unit, request.mode));
    const auto same = [&](const PlannedReplay& other) { return other.budget == budget; };
    if (std::any_of(replays.begin(), replays.end(), same)) continue;
    for (std::size_t policy = 0; policy < request.policies.size(); ++policy) {
      replays.push_back({policy, budget, amount.written()});
    }
  }
  return replays;
}

void add_trace(SweepPlan& plan, Trace trace) {
  const auto same = [&](const Trace& other) { return other.id() == trace.id(); };
  if (std::any_of(plan.traces.begin(), plan.traces.end(), same)) return;
  for (SelectedUnit& unit : select_units(trace, plan.request.selection)) {
    check_mode(unit.name.sequence, unit.num_tokens, unit.prompt_length, plan.request.mode);
    PlannedUnit& planned = plan.units.emplace_back();
    planned.trace = plan.traces.size();
    planned.replays = replays_of(plan.request, unit);
    planned.remaining = planned.replays;
    planned.unit = std::move(unit);
  }
  plan.traces.push_back(std::move(trace));
}

void check_allocation(const Spec& policy) {
  const Scope scope = policy.rules({}).scope;
  if (policy.allocation() == Allocation::adaptive && scope != Scope::head) {
    throw UsageError(fmt::format(
        "{}: adaptive splits a layer's budget over its heads, which here share one cache; leave "
        "it out, or use another allocation",
        policy.text()));
  }
}

// A row names the schedule by what it is, not only by where it was.
Spec with_what_it_holds(const Spec& policy) {
  const ScheduleFile file(policy.schedule_file());
  const std::string found = sha256_of_file(policy.schedule_file());
  const std::string& expected = policy.schedule_sha256();
  if (!expected.empty() && expected != found) {
    throw DataError(
        fmt::format("{}: expected the schedule with SHA-256 {}, found {}; it has changed",
                    policy.schedule_file(), expected, found));
  }
  return policy.with_schedule(found);
}

void check_positions(const Spec& policy, const Trace& trace) {
  if (policy.rules({}).slot_positions && !trace.header().rope) {
    throw DataError(
        fmt::format("{}: /rope: expected how keys were rotated, which {} needs, found nothing; "
                    "record it, or keep text positions",
                    trace.file().string(), policy.text()));
  }
}

}  // namespace

std::size_t SweepPlan::num_replays() const {
  return std::accumulate(
      units.begin(), units.end(), std::size_t{0},
      [](std::size_t sum, const PlannedUnit& u) { return sum + u.replays.size(); });
}

std::size_t SweepPlan::num_remaining() const {
  return std::accumulate(
      units.begin(), units.end(), std::size_t{0},
      [](std::size_t sum, const PlannedUnit& u) { return sum + u.remaining.size(); });
}

std::size_t SweepPlan::num_reports() const {
  std::size_t count = 0;
  for (const SweepJob& job : jobs_of(*this)) {
    count += std::count_if(job.plans.begin(), job.plans.end(),
                           [](const auto& plan) { return plan.has_value(); });
  }
  return count;
}

std::size_t SweepPlan::memory_bytes() const {
  std::size_t largest = 0;
  const std::vector<SweepJob> jobs = jobs_of(*this);
  for (const SweepJob& job : jobs) {
    largest = std::max(largest, job.units.size() * replay_memory(replay_shape(*this, job)));
  }
  return largest * std::min(static_cast<std::size_t>(request.threads), jobs.size());
}

int default_threads() { return omp_get_max_threads(); }

SweepPlan plan_sweep(SweepRequest request) {
  if (request.policies.empty() || request.budgets.empty()) {
    throw UsageError("a sweep takes at least one policy and one budget");
  }
  SweepPlan plan;
  plan.request = std::move(request);
  for (Spec& policy : plan.request.policies) {
    check_allocation(policy);
    check_reference(policy, plan.request.measuring);
    if (policy.policy().follows_schedule) policy = with_what_it_holds(policy);
  }
  for (const std::filesystem::path& file : plan.request.traces) add_trace(plan, Trace(file));
  for (const Spec& policy : plan.request.policies) {
    for (const Trace& trace : plan.traces) check_positions(policy, trace);
  }
  return plan;
}

void skip_finished(SweepPlan& plan, const ResultStore& store) {
  for (PlannedUnit& unit : plan.units) {
    Result key;
    describe(plan, unit, unit.replays.front(), key);
    const auto finished = store.finished(key);
    std::erase_if(unit.remaining, [&](const PlannedReplay& replay) {
      return finished.contains({plan.request.policies[replay.policy].text(), replay.budget});
    });
  }
}

int budget_base(const SelectedUnit& unit, Mode mode) {
  return mode == Mode::stream ? unit.num_tokens : unit.prompt_length;
}

std::vector<std::string> left_to_cpu(const SweepPlan& plan, const Backend& backend) {
  const DeviceReplays* device = backend.replays();
  std::set<std::string> names;
  if (device == nullptr) return {};
  for (const PlannedUnit& unit : plan.units) {
    for (const PlannedReplay& replay : unit.remaining) {
      const Spec& policy = plan.request.policies[replay.policy];
      const Rules rules = policy.rules({.budget = replay.budget});
      const bool has_reference = plan.request.measuring.has_reference();
      if (!has_reference || !device->can_replay(rules)) names.insert(policy.text());
    }
  }
  return {names.begin(), names.end()};
}

void describe(const SweepPlan& plan, const PlannedUnit& unit, const PlannedReplay& replay,
              Result& result) {
  const Trace& trace = plan.traces[unit.trace];
  result.trace_id = trace.id();
  result.sequence = unit.unit.name.sequence;
  result.layer = unit.unit.name.layer;
  result.kv_head = unit.unit.name.kv_head;
  result.policy = plan.request.policies[replay.policy].text();
  result.budget = replay.budget;
  result.mode = mode_name(plan.request.mode, plan.request.measuring);
  result.seed = plan.request.seed;
  result.trace = trace.file().string();
  result.budget_request = replay.budget_request;
  result.kvsim_version = version();
}

}  // namespace kvsim
