#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpu/cuda/choose_backend.h"
#include "python/engine/bindings.h"
#include "python/engine/columns.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "sim/sweep/run_sweep.h"
#include "sim/sweep/sweep_output.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

/// (columns of the table `replay` for all rows asked for, notes for the user).
nb::tuple sweep(const std::vector<Trace>& traces, const Lists& policies, const Lists& budgets,
                const nb::dict& options, const std::optional<std::string>& output, bool force,
                const std::string& command, const nb::object& progress) {
  const Options given(options);
  std::vector<std::string> notes;
  std::vector<Result> rows;
  run_engine(progress, [&](Work& state) {
    const auto backend = choose_backend(given.device);
    SweepPlan plan = plan_sweep(request_of(traces, policies, budgets, given, notes));
    SweepOutput found(plan, output_of(output, command, given), backend->device(), force);
    notes.insert(notes.end(), found.notes().begin(), found.notes().end());
    state.total = plan.num_replays();
    state.done = plan.num_replays() - plan.num_remaining();
    run_sweep(plan, *backend, state.interrupted,
              [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
                found.add({outcomes});
                state.done += outcomes.size();
              });
    found.finish();
    rows = found.rows(plan);
  });
  return nb::make_tuple(columns_of(rows), nb::cast(notes));
}

}  // namespace

void bind_sweep(nb::module_& module) {
  module.def("sweep", &sweep, nb::arg("traces"), nb::arg("policies"), nb::arg("budgets"),
             nb::arg("options"), nb::arg("output").none(), nb::arg("force"), nb::arg("command"),
             nb::arg("progress").none());
}

}  // namespace kvsim::python
