#include "sim/core/sweep.h"

#include <omp.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "policies/errors.h"
#include "sim/core/memory.h"
#include "sim/core/version.h"

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

std::vector<Outcome> replay_unit(const SweepPlan& plan, const PlannedUnit& planned,
                                 const Backend& backend, const std::atomic<bool>& interrupted) {
  const Unit unit = plan.traces[planned.trace].read_unit(planned.unit.name);
  std::vector<Configuration> configurations;
  for (const PlannedReplay& replay : planned.remaining) {
    configurations.push_back({plan.request.policies[replay.policy], replay.budget});
  }
  const ReplayOptions options{.mode = plan.request.mode,
                              .seed = static_cast<std::uint64_t>(plan.request.seed),
                              .trajectories = plan.request.trajectories,
                              .interrupted = &interrupted};
  std::vector<Outcome> outcomes = replay(unit, configurations, options, backend);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    describe(plan, planned, planned.remaining[i], backend.device(), outcomes[i].result);
  }
  return outcomes;
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

std::size_t SweepPlan::memory_bytes() const {
  std::size_t largest = 0;
  for (const PlannedUnit& planned : units) {
    const TraceHeader& header = traces[planned.trace].header();
    largest = std::max(
        largest, replay_memory({.num_tokens = static_cast<std::size_t>(planned.unit.num_tokens),
                                .group_size = static_cast<std::size_t>(header.group_size()),
                                .head_dim = static_cast<std::size_t>(header.head_dim),
                                .value_dim = static_cast<std::size_t>(header.value_dim),
                                .configurations = planned.remaining.size(),
                                .trajectories = request.trajectories}));
  }
  return largest * std::min(static_cast<std::size_t>(request.threads), units.size());
}

int default_threads() { return omp_get_max_threads(); }

SweepPlan plan_sweep(SweepRequest request) {
  if (request.policies.empty() || request.budgets.empty()) {
    throw UsageError("a sweep takes at least one policy and one budget");
  }
  SweepPlan plan;
  plan.request = std::move(request);
  for (const std::filesystem::path& file : plan.request.traces) add_trace(plan, Trace(file));
  return plan;
}

void skip_finished(SweepPlan& plan, const ResultStore& store) {
  for (PlannedUnit& unit : plan.units) {
    Result key;
    describe(plan, unit, unit.replays.front(), "", key);
    const auto finished = store.finished(key);
    std::erase_if(unit.remaining, [&](const PlannedReplay& replay) {
      return finished.contains({plan.request.policies[replay.policy].text(), replay.budget});
    });
  }
}

int budget_base(const SelectedUnit& unit, Mode mode) {
  return mode == Mode::stream ? unit.num_tokens : unit.prompt_length;
}

void describe(const SweepPlan& plan, const PlannedUnit& unit, const PlannedReplay& replay,
              const std::string& device, Result& result) {
  const Trace& trace = plan.traces[unit.trace];
  result.trace_id = trace.id();
  result.sequence = unit.unit.name.sequence;
  result.layer = unit.unit.name.layer;
  result.kv_head = unit.unit.name.kv_head;
  result.policy = plan.request.policies[replay.policy].text();
  result.budget = replay.budget;
  result.mode = mode_name(plan.request.mode);
  result.seed = plan.request.seed;
  result.trace = trace.file().string();
  result.budget_request = replay.budget_request;
  result.device = device;
  result.kvsim_version = version();
}

void run_sweep(const SweepPlan& plan, const Backend& backend, const std::atomic<bool>& interrupted,
               const UnitFinished& finished) {
  std::atomic<bool> failed = false;
  std::vector<std::exception_ptr> failures(plan.units.size());
  const auto num_units = static_cast<std::int64_t>(plan.units.size());
  std::mutex reporting;
#pragma omp parallel for schedule(dynamic) num_threads(plan.request.threads)
  for (std::int64_t i = 0; i < num_units; ++i) {
    const PlannedUnit& unit = plan.units[i];
    if (unit.remaining.empty() || failed || interrupted) continue;
    try {
      std::vector<Outcome> outcomes = replay_unit(plan, unit, backend, interrupted);
      // Not an OpenMP critical section: an exception must not leave one.
      const std::lock_guard<std::mutex> lock(reporting);
      finished(unit, std::move(outcomes));
    } catch (...) {
      failures[i] = std::current_exception();
      failed = true;
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  if (interrupted) throw Interrupted("interrupted");
}

}  // namespace kvsim
