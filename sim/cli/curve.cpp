#include <fmt/format.h>

#include <iostream>

#include "sim/cli/command_line.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/progress.h"
#include "sim/cli/session.h"
#include "sim/results/sinks/table_output.h"
#include "sim/summary/curve_summary.h"
#include "sim/sweep/curve_table.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/stored_sweep.h"

namespace kvsim::cli {
namespace {

void announce(const CurvePlan& plan) {
  std::cerr << fmt::format("kvsim: curves of {} policies on {} units; {}\n",
                           plan.sweep.request.policies.size(), plan.sweep.units.size(),
                           memory_note(plan.memory_bytes(), plan.sweep.request.threads));
}

}  // namespace

int run_curve(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options("Options");
  options.add_options()(
      "policies", po::value<std::vector<std::string>>(),
      "specs separated by ';', or the option again; h2o:recent={0,0.5}: one "
      "spec each; mine=SPEC: shown as mine; all: every policy whose caches nest; optimal: the "
      "most recall that there is")(
      "output-error", po::value<std::string>()->default_value("none"),
      "at which budgets to compute output errors, too: none, all, every:32 or 5%,10%,20%..80%:20%")(
      "output,o", po::value<std::string>(),
      "the result file (SQLite); rows of its table curve with the same key are replaced");
  options.add(session_options()).add(shard_options()).add(scratch_options());
  const auto values = parse(verb, arguments, options, {"TRACE"});
  if (!values) return 0;

  SweepRequest request = request_of(options_from(*values));
  for (const std::string& trace : positionals_from(verb, *values, "TRACE"))
    request.traces.emplace_back(trace);
  request.policies = specs_from(all_from(verb, *values, "policies"), *values, specs_with_curves());
  const std::string file = required_from(verb, *values, "output");
  const auto backend = backend_from(*values);
  const CurvePlan plan =
      plan_curves(std::move(request),
                  ErrorBudgets((*values)["output-error"].as<std::string>(), "--output-error"));
  const Output output{.file = file,
                      .scratch = scratch_from(*values),
                      .command = command_line(verb, arguments, *values)};
  TableOutput tables(output, {curve_schema()},
                     labels_of(plan.sweep, output.command, backend->device()));

  const std::atomic<bool>& interrupted = catch_interrupts();
  const std::size_t num_units = plan.sweep.units.size();
  print_notes({note_of_shard(plan.sweep, "unit"), note_of_empty_shard(plan.sweep)}, *values);
  if (values->count("quiet") == 0) announce(plan);
  Progress progress(num_units, "units", *values);
  CurveSummary summary;
  try {
    run_curves(plan, *backend, interrupted,
               [&](const PlannedUnit& unit, const std::vector<Curve>& curves,
                   const std::vector<TableRows>& rows) {
                 tables.add(rows);
                 summary.add(plan, unit, curves);
                 progress.advance(unit.unit.name);
               });
  } catch (const Interrupted&) {
    throw Interrupted(fmt::format("interrupted after {}, which {} keeps", progress.state(),
                                  tables.keep().string()));
  }
  tables.finish();
  if (plan.sweep.request.shard.is_all()) {
    summary.write(std::cout, plan);
  } else {
    write_shard(std::cout, plan.sweep, file);
  }
  return 0;
}

}  // namespace kvsim::cli
