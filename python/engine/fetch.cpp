#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpu/cuda/choose_backend.h"
#include "python/engine/bindings.h"
#include "python/engine/columns.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "sim/sweep/fetch_table.h"
#include "sim/sweep/run_fetches.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/stored_sweep.h"
#include "sim/sweep/whole_layers.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// What is fetched; lists are as on the command line.
FetchRequest fetch_request(const Lists& select, const Lists& resident, const std::string& replace,
                           bool curve, std::optional<int> page) {
  return {.selectors = parse_selectors(select, page),
          .resident = parse_residents(resident),
          .replace = parse_replacements(replace, "--replace"),
          .curve = curve};
}

/// (table_of() the table `fetch`, notes for the user).
nb::tuple fetch(const std::vector<Trace>& traces, const Lists& select, const Lists& resident,
                const std::string& replace, bool curve, std::optional<int> page,
                const nb::dict& options, const std::optional<std::string>& output,
                const std::string& command, const nb::object& progress) {
  const Options given(options);
  std::vector<std::string> notes;
  std::optional<TableOutput> tables;
  run_engine(progress, [&](Work& state) {
    const auto backend = choose_backend(given.device);
    const FetchPlan plan = plan_fetches(request_of(traces, {}, {}, given, notes),
                                        fetch_request(select, resident, replace, curve, page));
    for (const std::string& note :
         {note_of_empty_shard(plan.sweep), note_of_cut_layers(plan.sweep)}) {
      if (!note.empty()) notes.push_back(note);
    }
    tables.emplace(output_of(output, command, given), schemas_of(plan),
                   labels_of(plan.sweep, command, backend->device()));
    tables->keep_rows();
    state.total = plan.sweep.units.size();
    run_fetches(
        plan, *backend, state.interrupted,
        [&](const PlannedUnit&, const std::vector<Fetches>&, const std::vector<TableRows>& rows) {
          tables->add(rows);
          ++state.done;
        });
    tables->finish();
  });
  return nb::make_tuple(tables_of(*tables)["fetch"], nb::cast(notes));
}

}  // namespace

void bind_fetch(nb::module_& module) {
  module.def("fetch", &fetch, "traces"_a, "select"_a, "resident"_a, "replace"_a, "curve"_a,
             "page"_a.none(), "options"_a, "output"_a.none(), "command"_a, "progress"_a.none());
}

}  // namespace kvsim::python
