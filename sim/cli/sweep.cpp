#include <fmt/format.h>

#include <iostream>

#include "sim/cli/command_line.h"
#include "sim/cli/session.h"
#include "sim/summary/sweep_table.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/sweep_output.h"

namespace kvsim::cli {
int run_sweep(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options("Options");
  options.add_options()("policies", po::value<std::vector<std::string>>(),
                        "specs separated by ';', or the option again; h2o:recent={0,0.5}: one "
                        "spec each; mine=SPEC: shown as mine; all: every policy with its "
                        "defaults, oracles: every oracle, without those that other options rule "
                        "out")(
      "budgets", po::value<std::vector<std::string>>(),
      "budgets separated by commas, or the option again: 5%,0.2,256; 64KiB: bytes per KV head, of "
      "which each policy keeps what fits as it stores tokens; 5%..50%:5% for a range with its "
      "step")("output,o", po::value<std::string>(),
              "the result file (SQLite); what it holds already of the same code is not "
              "replayed again")("force", "replay also what it holds already");
  options.add(session_options())
      .add(measuring_options())
      .add(shard_options())
      .add(scratch_options());
  const auto values = parse(verb, arguments, options, {"TRACE"});
  if (!values) return 0;

  SweepRequest request = request_of(options_from(*values));
  for (const std::string& trace : positionals_from(verb, *values, "TRACE"))
    request.traces.emplace_back(trace);
  request.policies = policies_from(verb, *values, request);
  request.budgets = parse_budgets(all_from(verb, *values, "budgets"));
  const std::string file = required_from(verb, *values, "output");

  const auto backend = backend_from(*values);
  SweepPlan plan = plan_sweep(std::move(request));
  const Output output{.file = file,
                      .scratch = scratch_from(*values),
                      .command = command_line(verb, arguments, *values)};
  SweepOutput rows(plan, output, backend->device(), values->count("force") > 0);
  print_notes({note_of_shard(plan, "replay")}, *values);
  print_notes(rows.notes(), *values);
  try {
    run_plan(
        plan, *backend, *values,
        [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) { rows.add({outcomes}); });
  } catch (const Interrupted& interrupted) {
    throw Interrupted(fmt::format("{}, which {} keeps; the same command does the rest",
                                  interrupted.what(), rows.keep().string()));
  }
  rows.finish();
  if (plan.request.shard.is_all()) {
    write_sweep_table(std::cout, plan, rows.file());
  } else {
    write_shard(std::cout, plan, file);
  }
  return 0;
}

}  // namespace kvsim::cli
