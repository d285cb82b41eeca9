#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>

#include "gpu/cuda/choose_backend.h"
#include "python/engine/arrays.h"
#include "python/engine/bindings.h"
#include "python/engine/columns.h"
#include "python/engine/kept_set.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "sim/sweep/cut_amounts.h"
#include "sim/sweep/load_jobs.h"
#include "sim/sweep/run_sweep.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

bool comes_before(const Outcome& a, const Outcome& b) {
  const auto key = [](const Result& row) {
    return std::tie(row.trace_id, row.sequence, row.layer, row.kv_head, row.policy, row.budget);
  };
  return key(a.result) < key(b.result);
}

/// What every replay of a sweep keeps: (columns of the table `replay`, evicted_after [n] per row,
/// selected_of() per row, notes for the user), ordered by key. Nothing is stored.
nb::tuple schedules(const std::vector<Trace>& traces, const Lists& policies, const Lists& budgets,
                    const nb::dict& options, const nb::object& progress) {
  const Options given(options);
  std::vector<std::string> notes;
  std::vector<Outcome> found;
  run_engine(progress, [&](Work& state) {
    const auto backend = choose_backend(given.device);
    SweepRequest request = request_of(traces, policies, budgets, given, notes);
    request.trajectories = true;
    request.selections = true;
    const SweepPlan plan = plan_sweep(std::move(request));
    for (const std::string& cut : cut_amounts(plan)) notes.push_back(cut);
    state.total = plan.num_replays();
    run_sweep(plan, *backend, state.interrupted,
              [&](const PlannedUnit&, std::vector<Outcome> outcomes) {
                state.done += outcomes.size();
                for (Outcome& outcome : outcomes) {
                  drop_measurements(outcome.trajectory);
                  found.push_back(std::move(outcome));
                }
              });
    std::sort(found.begin(), found.end(), comes_before);
  });
  std::vector<Result> rows;
  nb::list evicted_after;
  nb::list selected;
  for (Outcome& outcome : found) {
    rows.push_back(std::move(outcome.result));
    evicted_after.append(array_of(std::move(outcome.trajectory.evicted_after)));
    selected.append(selected_of(outcome.trajectory));
  }
  return nb::make_tuple(columns_of(rows), evicted_after, selected, nb::cast(notes));
}

/// How the budget of each KV head of a sequence comes out of a split: (layer, KV head, tokens)
/// each, ordered. The options select one sequence; there is one policy and one budget.
nb::list split_budgets(const Trace& trace, const Lists& policy, const Lists& budget,
                       const nb::dict& options) {
  const Options given(options);
  std::vector<std::string> notes;
  std::vector<std::tuple<int, int, int>> found;
  run_engine(nb::none(), [&](Work& state) {
    const auto backend = choose_backend(given.device);
    const SweepPlan plan = plan_sweep(request_of({trace}, policy, budget, given, notes));
    const std::vector<SweepJob> jobs = jobs_of(plan);
    const JobLoader loader(plan, jobs, *backend, state.interrupted);
    for (const SweepJob& job : jobs) {
      const ReplayJob loaded = loader.load(job);
      for (std::size_t i = 0; i < loaded.units.size(); ++i) {
        const UnitName& name = loaded.units[i].name;
        found.emplace_back(name.layer, name.kv_head, loaded.configurations.front().budget_of(i));
      }
    }
  });
  std::sort(found.begin(), found.end());
  nb::list budgets;
  for (const auto& [layer, kv_head, tokens] : found) {
    budgets.append(nb::make_tuple(layer, kv_head, tokens));
  }
  return budgets;
}

}  // namespace

void bind_schedules(nb::module_& module) {
  module.def("schedules", &schedules, "traces"_a, "policies"_a, "budgets"_a, "options"_a,
             "progress"_a.none());
  module.def("split_budgets", &split_budgets, "trace"_a, "policy"_a, "budget"_a, "options"_a);
}

}  // namespace kvsim::python
