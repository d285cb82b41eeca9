#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "analysis/run_analyses.h"
#include "gpu/cuda/choose_backend.h"
#include "python/engine/bindings.h"
#include "python/engine/columns.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "python/engine/scratch.h"
#include "sim/results/store.h"
#include "sim/sweep/cut_amounts.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/stored_sweep.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// (a dict from table to its table_of(), notes for the user). `policies` and `budgets` may be
/// empty.
nb::tuple analyze(const std::vector<Trace>& traces, const std::string& what,
                  const std::string& policies, const std::string& budgets, const nb::dict& options,
                  const std::optional<std::string>& output, const std::string& command,
                  const nb::object& progress) {
  const Options given(options);
  std::vector<TableSchema> schemas;
  std::vector<std::vector<std::vector<Value>>> found;  // [table][row][column]
  std::vector<std::string> notes;
  std::string run_id;
  run_engine(progress, [&](Work& state) {
    const auto backend = choose_backend(given.device);
    SweepRequest request = request_of(traces, policies, budgets, given, notes);
    AnalysisPlan plan = plan_analyses(parse_analyses(what), std::move(request), what == "all");
    schemas = plan.schemas;
    found.resize(schemas.size());
    for (const std::string& reason : plan.left_out) notes.push_back("left out: " + reason);
    for (const std::string& cut : cut_amounts(plan.sweep)) notes.push_back(cut);
    const std::string empty = note_of_empty_shard(plan.sweep);
    if (!empty.empty()) notes.push_back(empty);
    std::optional<ResultStore> store;
    if (output) {
      store.emplace(*output, ResultStore::Access::write, scratch_in(given.scratch));
      for (const TableSchema& schema : schemas) store->create(schema);
      store->begin_run(labels_of(plan.sweep, command, backend->device()));
      run_id = store->run_id();
    }
    state.total = plan.sweep.units.size();
    run_analyses(plan, *backend, state.interrupted,
                 [&](const PlannedUnit&, const std::vector<TableRows>& tables) {
                   if (store) store->replace(tables);
                   for (std::size_t i = 0; i < tables.size(); ++i) {
                     found[i].insert(found[i].end(), tables[i].rows.begin(), tables[i].rows.end());
                   }
                   ++state.done;
                 });
    if (store) store->finish_run();
  });
  nb::dict tables;
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    tables[schemas[i].name.c_str()] = table_of(schemas[i], std::move(found[i]), run_id);
  }
  return nb::make_tuple(tables, nb::cast(notes));
}

}  // namespace

void bind_analyze(nb::module_& module) {
  module.def("analyze", &analyze, "traces"_a, "what"_a, "policies"_a, "budgets"_a, "options"_a,
             "output"_a.none(), "command"_a, "progress"_a.none());
}

}  // namespace kvsim::python
