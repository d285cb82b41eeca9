#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpu/cuda/choose_backend.h"
#include "python/engine/bindings.h"
#include "python/engine/columns.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "sim/sweep/curve_table.h"
#include "sim/sweep/run_curves.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/stored_sweep.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// (table_of() the table `curve`, notes for the user).
nb::tuple curve(const std::vector<Trace>& traces, const Lists& policies, const nb::dict& options,
                const std::string& output_error, const std::optional<std::string>& output,
                const std::string& command, const nb::object& progress) {
  const Options given(options);
  std::vector<std::string> notes;
  std::optional<TableOutput> tables;
  run_engine(progress, [&](Work& state) {
    const auto backend = choose_backend(given.device);
    SweepRequest request = request_of(traces, {}, {}, given, notes);
    PolicyList list = policies_in(policies, allocation_of(given.request), specs_with_curves());
    request.policies = std::move(list.policies);
    notes = std::move(list.notes);
    const CurvePlan plan =
        plan_curves(std::move(request), ErrorBudgets(output_error, "--output-error"));
    const std::string empty = note_of_empty_shard(plan.sweep);
    if (!empty.empty()) notes.push_back(empty);
    tables.emplace(output_of(output, command, given), std::vector{curve_schema()},
                   labels_of(plan.sweep, command, backend->device()));
    tables->keep_rows();
    state.total = plan.sweep.units.size();
    run_curves(
        plan, *backend, state.interrupted,
        [&](const PlannedUnit&, const std::vector<Curve>&, const std::vector<TableRows>& rows) {
          tables->add(rows);
          ++state.done;
        });
    tables->finish();
  });
  return nb::make_tuple(tables_of(*tables)["curve"], nb::cast(notes));
}

}  // namespace

void bind_curve(nb::module_& module) {
  module.def("curve", &curve, "traces"_a, "policies"_a, "options"_a, "output_error"_a,
             "output"_a.none(), "command"_a, "progress"_a.none());
}

}  // namespace kvsim::python
