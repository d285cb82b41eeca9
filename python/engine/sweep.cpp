#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpu/cuda/choose_backend.h"
#include "python/engine/bindings.h"
#include "python/engine/columns.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "python/engine/scratch.h"
#include "sim/sweep/cut_amounts.h"
#include "sim/sweep/run_sweep.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/stored_sweep.h"
#include "sim/sweep/whole_layers.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

ResultStore open_store(const std::optional<std::string>& output, const std::string& scratch) {
  if (!output) return ResultStore();
  return ResultStore(*output, ResultStore::Access::write, scratch_in(scratch));
}

/// (columns of the table `replay` for all rows asked for, notes for the user).
nb::tuple sweep(const std::vector<Trace>& traces, const std::string& policies,
                const std::string& budgets, const nb::dict& options,
                const std::optional<std::string>& output, bool force, const std::string& command,
                const nb::object& progress) {
  const Options given(options);
  std::vector<std::string> notes;
  std::vector<Result> rows;
  run_engine(progress, [&](Work& state) {
    const auto backend = choose_backend(given.device);
    SweepPlan plan = plan_sweep(request_of(traces, policies, budgets, given, notes));
    ResultStore store = open_store(output, given.scratch);
    const RunLabels labels = labels_of(plan, command, backend->device());
    // Rows in memory belong to no run.
    if (output) {
      const std::string note = note_of_another_code(begin_sweep(plan, store, labels, force));
      if (!note.empty()) notes.push_back(note);
    }
    if (const std::string note = note_of_empty_shard(plan); !note.empty()) notes.push_back(note);
    for (const std::string& cut : cut_amounts(plan)) notes.push_back(cut);
    if (const std::string note = note_of_cut_layers(plan); !note.empty()) notes.push_back(note);
    state.total = plan.num_replays();
    state.done = plan.num_replays() - plan.num_remaining();
    run_sweep(plan, *backend, state.interrupted,
              [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
                store_unit(outcomes, store);
                state.done += outcomes.size();
              });
    store.finish_run();
    rows = rows_of_sweep(plan, store);
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
