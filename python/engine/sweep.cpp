#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "gpu/cuda/choose_backend.h"
#include "python/engine/bindings.h"
#include "python/engine/columns.h"
#include "python/engine/kept_set.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "sim/sweep/run_sweep.h"
#include "sim/sweep/sweep_output.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

/// (columns of the table `replay` for all rows asked for, notes for the user, kept_set_of() every
/// replay that was made of the canonical specs `kept`).
nb::tuple sweep(const std::vector<Trace>& traces, const Lists& policies, const Lists& budgets,
                const nb::dict& options, const std::optional<std::string>& output, bool force,
                const std::string& command, const nb::object& progress,
                const std::vector<std::string>& kept) {
  const Options given(options);
  std::vector<std::string> notes;
  std::vector<Result> rows;
  std::vector<Outcome> of_kept;
  run_engine(progress, [&](Work& state) {
    const auto backend = choose_backend(given.device);
    SweepRequest request = request_of(traces, policies, budgets, given, notes);
    request.trajectories = request.selections = !kept.empty();
    SweepPlan plan = plan_sweep(std::move(request));
    SweepOutput found(plan, output_of(output, command, given), backend->device(), force);
    notes.insert(notes.end(), found.notes().begin(), found.notes().end());
    state.total = plan.num_replays();
    state.done = plan.num_replays() - plan.num_remaining();
    run_sweep(plan, *backend, state.interrupted,
              [&](const PlannedUnit&, std::vector<Outcome> outcomes) {
                for (Outcome& outcome : outcomes) drop_measurements(outcome.trajectory);
                found.add({outcomes});
                state.done += outcomes.size();
                for (Outcome& outcome : outcomes) {
                  const bool keep =
                      std::find(kept.begin(), kept.end(), outcome.result.policy) != kept.end();
                  if (keep) of_kept.push_back(std::move(outcome));
                }
              });
    found.finish();
    rows = found.rows(plan);
  });
  nb::list sets;
  for (Outcome& outcome : of_kept) sets.append(kept_set_of(outcome));
  return nb::make_tuple(columns_of(rows), nb::cast(notes), sets);
}

}  // namespace

void bind_sweep(nb::module_& module) {
  module.def("sweep", &sweep, nb::arg("traces"), nb::arg("policies"), nb::arg("budgets"),
             nb::arg("options"), nb::arg("output").none(), nb::arg("force"), nb::arg("command"),
             nb::arg("progress").none(), nb::arg("kept") = std::vector<std::string>());
}

}  // namespace kvsim::python
