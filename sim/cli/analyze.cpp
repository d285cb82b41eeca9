#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "analysis/run_analyses.h"
#include "sim/base/errors.h"
#include "sim/cli/command_line.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/progress.h"
#include "sim/cli/session.h"
#include "sim/results/sinks/table_output.h"
#include "sim/summary/analysis_summary.h"
#include "sim/sweep/cut_amounts.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/stored_sweep.h"

namespace kvsim::cli {
namespace {

void list_analyses(std::ostream& out) {
  out << "\nAnalyses (NAME:key=value,key=value sets parameters; each writes the table of its "
         "name):\n";
  for (const AnalysisInfo* info : analyses()) {
    out << fmt::format("  {:<18} {} ({}){}\n", info->name, info->shows, info->source,
                       info->accepts != nullptr ? "; looks at replays" : "");
    for (const Param& param : info->params) {
      out << fmt::format("  {:<18}   {}={}: {}\n", "", param.name, param.initial, param.help);
    }
  }
  out << "\nWhat every column means stands in the table `about` of the result file.\n";
}

void announce(const AnalysisPlan& plan) {
  for (const std::string& reason : plan.left_out) {
    std::cerr << fmt::format("kvsim: left out: {}\n", reason);
  }
  std::cerr << fmt::format("kvsim: {} analyses of {} units; {}\n", plan.analyses.size(),
                           plan.sweep.units.size(),
                           memory_note(plan.memory_bytes(), plan.sweep.request.threads));
  for (const std::string& cut : cut_amounts(plan.sweep)) {
    std::cerr << fmt::format("kvsim: {}\n", cut);
  }
}

SweepRequest request_of(const Verb& verb, const po::variables_map& values) {
  SweepRequest request = request_of(options_from(values));
  for (const std::string& trace : positionals_from(verb, values, "TRACE"))
    request.traces.emplace_back(trace);
  if ((values.count("policies") > 0) != (values.count("budgets") > 0)) {
    throw UsageError("--policies and --budgets are given together or not at all");
  }
  if (values.count("policies") > 0) {
    request.policies = policies_from(verb, values, request);
    request.budgets = parse_budgets(all_from(verb, values, "budgets"));
    const bool labelled = std::any_of(request.policies.begin(), request.policies.end(),
                                      [](const Spec& spec) { return !spec.label().empty(); });
    if (labelled && values.count("quiet") == 0) {
      std::cerr << "kvsim: tables of analyses show specs, not their labels\n";
    }
  }
  return request;
}

}  // namespace

int run_analyze(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options("Options");
  options.add_options()("what", po::value<std::string>(),
                        "analyses separated by commas or ';'; all: every one that trace and "
                        "options allow")(
      "policies", po::value<std::vector<std::string>>(),
      "for analyses of replays: specs as kvsim sweep takes them")(
      "budgets", po::value<std::vector<std::string>>(), "and budgets: 5%,0.2,256,64KiB,32..128:32")(
      "output,o", po::value<std::string>(),
      "the result file (SQLite); rows with the same key are replaced");
  options.add(session_options()).add(shard_options()).add(scratch_options());
  const auto values = parse(verb, arguments, options, {"TRACE"});
  if (!values) {
    list_analyses(std::cout);
    return 0;
  }

  const std::string what = required_from(verb, *values, "what");
  const std::string file = required_from(verb, *values, "output");
  const auto backend = backend_from(*values);
  AnalysisPlan plan = plan_analyses(parse_analyses(what), request_of(verb, *values), what == "all");
  const Output output{.file = file,
                      .scratch = scratch_from(*values),
                      .command = command_line(verb, arguments, *values)};
  TableOutput found(output, plan.schemas, labels_of(plan.sweep, output.command, backend->device()));

  const std::atomic<bool>& interrupted = catch_interrupts();
  const std::size_t num_units = plan.sweep.units.size();
  print_notes({note_of_shard(plan.sweep, "unit"), note_of_empty_shard(plan.sweep)}, *values);
  if (values->count("quiet") == 0) announce(plan);
  Progress progress(num_units, "units", *values);
  AnalysisSummary summary;
  try {
    run_analyses(plan, *backend, interrupted,
                 [&](const PlannedUnit& unit, const std::vector<TableRows>& tables) {
                   found.add(tables);
                   summary.add(plan, unit, tables);
                   progress.advance(unit.unit.name);
                 });
  } catch (const Interrupted&) {
    throw Interrupted(fmt::format("interrupted after {}, which {} keeps", progress.state(),
                                  found.keep().string()));
  }
  found.finish();
  if (plan.sweep.request.shard.is_all()) {
    summary.write(std::cout, plan);
  } else {
    write_shard(std::cout, plan.sweep, file);
  }
  return 0;
}

}  // namespace kvsim::cli
