#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>

#include "gpu/cuda/choose_backend.h"
#include "python/engine/arrays.h"
#include "python/engine/bindings.h"
#include "python/engine/columns.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "sim/sweep/cut_amounts.h"
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

/// (offsets [n + 1], tokens) of a policy that selects, else None.
nb::object selected_of(Trajectory& trajectory) {
  if (trajectory.selected_begin.empty()) return nb::none();
  return nb::make_tuple(array_of(std::move(trajectory.selected_begin)),
                        array_of(std::move(trajectory.selected)));
}

/// What every replay of a sweep keeps: (columns of the table `replay`, evicted_after [n] per row,
/// selected_of() per row, notes for the user), ordered by key. Nothing is stored.
nb::tuple schedules(const std::vector<Trace>& traces, const std::string& policies,
                    const std::string& budgets, const nb::dict& options,
                    const nb::object& progress) {
  const Options given(options);
  std::vector<std::string> notes;
  std::vector<Outcome> found;
  run_engine(progress, [&](Work& state) {
    const auto backend = choose_backend(given.device);
    SweepRequest request = request_of(traces, policies, budgets, given, notes);
    request.trajectories = true;
    const SweepPlan plan = plan_sweep(std::move(request));
    for (const std::string& cut : cut_amounts(plan)) notes.push_back(cut);
    state.total = plan.num_replays();
    run_sweep(plan, *backend, state.interrupted,
              [&](const PlannedUnit&, std::vector<Outcome> outcomes) {
                state.done += outcomes.size();
                for (Outcome& outcome : outcomes) {
                  outcome.trajectory.attention_recall.resize(0, 0);
                  outcome.trajectory.output_error.resize(0, 0);
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

}  // namespace

void bind_schedules(nb::module_& module) {
  module.def("schedules", &schedules, "traces"_a, "policies"_a, "budgets"_a, "options"_a,
             "progress"_a.none());
}

}  // namespace kvsim::python
