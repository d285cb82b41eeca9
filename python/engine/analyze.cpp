#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "analysis/run_analyses.h"
#include "gpu/cuda/choose_backend.h"
#include "python/engine/bindings.h"
#include "python/engine/columns.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "sim/sweep/cut_amounts.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/stored_sweep.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// (a dict from table to its table_of(), notes for the user). `policies` and `budgets` may be
/// empty.
nb::tuple analyze(const std::vector<Trace>& traces, const std::string& what, const Lists& policies,
                  const Lists& budgets, const nb::dict& options,
                  const std::optional<std::string>& output, const std::string& command,
                  const nb::object& progress) {
  const Options given(options);
  std::vector<std::string> notes;
  std::optional<TableOutput> found;
  run_engine(progress, [&](Work& state) {
    const auto backend = choose_backend(given.device);
    SweepRequest request = request_of(traces, policies, budgets, given, notes);
    AnalysisPlan plan = plan_analyses(parse_analyses(what), std::move(request), what == "all");
    for (const std::string& reason : plan.left_out) notes.push_back("left out: " + reason);
    for (const std::string& cut : cut_amounts(plan.sweep)) notes.push_back(cut);
    const std::string empty = note_of_empty_shard(plan.sweep);
    if (!empty.empty()) notes.push_back(empty);
    found.emplace(output_of(output, command, given), plan.schemas,
                  labels_of(plan.sweep, command, backend->device()));
    found->keep_rows();
    state.total = plan.sweep.units.size();
    run_analyses(plan, *backend, state.interrupted,
                 [&](const PlannedUnit&, const std::vector<TableRows>& tables) {
                   found->add(tables);
                   ++state.done;
                 });
    found->finish();
  });
  return nb::make_tuple(tables_of(*found), nb::cast(notes));
}

}  // namespace

void bind_analyze(nb::module_& module) {
  module.def("analyze", &analyze, "traces"_a, "what"_a, "policies"_a, "budgets"_a, "options"_a,
             "output"_a.none(), "command"_a, "progress"_a.none());
}

}  // namespace kvsim::python
