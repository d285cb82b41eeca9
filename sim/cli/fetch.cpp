#include <fmt/format.h>

#include <iostream>

#include "sim/cli/command_line.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/progress.h"
#include "sim/cli/session.h"
#include "sim/results/sinks/table_output.h"
#include "sim/summary/fetch_summary.h"
#include "sim/sweep/fetch_table.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/stored_sweep.h"
#include "sim/sweep/whole_layers.h"

namespace kvsim::cli {
namespace {

void list_selectors(std::ostream& out) {
  out << "\nSelectors (NAME:key=value,key=value sets parameters):\n";
  for (const SelectorInfo& info : selectors()) {
    out << fmt::format("  {:<10} {} ({})\n", info.name, info.chooses, info.source);
    if (!info.differences.empty()) {
      out << fmt::format("  {:<10} unlike the paper: {}\n", "", info.differences);
    }
    for (const Param& param : info.params) {
      out << fmt::format("  {:<10}   {}={}: {}\n", "", param.name, param.initial, param.help);
    }
  }
  out << "\nThe page of the step is attended to in any case and is no access. What every column "
         "means stands in the table `about` of the result file.\n";
}

po::options_description fetch_options() {
  po::options_description options("Options");
  options.add_options()("select", po::value<std::vector<std::string>>(),
                        "what chooses the older pages that a step attends to: specs separated by "
                        "';', or the option again; topk:k={64,128}: one spec each")(
      "resident", po::value<std::vector<std::string>>(),
      "tokens that the device holds, the page of the step included: 256, 10%, 5%..50%:5%; a share "
      "becomes the nearest multiple of the page that is enough for a step")(
      "replace", po::value<std::string>()->default_value("lru,belady"),
      "what leaves for a fetched page: lru, fifo, clock, lfu, mass (the least accumulated "
      "attention), belady (MIN: the fewest misses that there are), or all")(
      "curve", "every size, from one pass, for lru and belady, in place of --resident")(
      "page", po::value<int>(), "tokens of a page, for specs that do not say")(
      "output,o", po::value<std::string>(),
      "the result file (SQLite); rows of its table fetch with the same key are replaced");
  po::options_description steps("Which steps");
  steps.add_options()("mode", po::value<std::string>()->default_value("stream"),
                      "stream: every step chooses; prefill: the prompt attends in full, and only "
                      "later steps choose and are measured")(
      "seed", po::value<std::int64_t>()->default_value(0), "for selectors that draw");
  po::options_description talk("What to say");
  talk.add_options()("quiet,q", "no progress, no notes")("verbose,v", "a line per finished unit");
  options.add(selection_options()).add(steps).add(run_options()).add(talk);
  return options.add(shard_options()).add(scratch_options());
}

FetchRequest fetch_from(const Verb& verb, const po::variables_map& values) {
  std::optional<int> page;
  if (values.count("page") > 0) page = values["page"].as<int>();
  FetchRequest fetch{
      .selectors = parse_selectors(all_from(verb, values, "select"), page),
      .resident = {},
      .replace = parse_replacements(values["replace"].as<std::string>(), "--replace"),
      .curve = values.count("curve") > 0};
  if (values.count("resident") > 0) {
    fetch.resident = parse_residents(values["resident"].as<std::vector<std::string>>());
  }
  return fetch;
}

void announce(const FetchPlan& plan) {
  std::cerr << fmt::format("kvsim: {} on {}; {}\n",
                           counted(plan.fetch.selectors.size(), "selector"),
                           counted(plan.sweep.units.size(), "unit"),
                           memory_note(plan.memory_bytes(), plan.sweep.request.threads));
}

}  // namespace

int run_fetch(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto values = parse(verb, arguments, fetch_options(), {"TRACE"});
  if (!values) {
    list_selectors(std::cout);
    return 0;
  }

  RequestOptions given = options_from(*values);
  given.protocol = {.mode = given.protocol.mode};  // --page is that of selectors
  SweepRequest request = request_of(given);
  for (const std::string& trace : positionals_from(verb, *values, "TRACE"))
    request.traces.emplace_back(trace);
  FetchRequest fetch = fetch_from(verb, *values);
  const std::string file = required_from(verb, *values, "output");
  const auto backend = backend_from(*values);
  const FetchPlan plan = plan_fetches(std::move(request), std::move(fetch));
  const Output output{.file = file,
                      .scratch = scratch_from(*values),
                      .command = command_line(verb, arguments, *values)};
  TableOutput tables(output, schemas_of(plan),
                     labels_of(plan.sweep, output.command, backend->device()));

  const std::atomic<bool>& interrupted = catch_interrupts();
  print_notes({note_of_shard(plan.sweep, "unit"), note_of_empty_shard(plan.sweep),
               note_of_cut_layers(plan.sweep)},
              *values);
  if (values->count("quiet") == 0) announce(plan);
  Progress progress(plan.sweep.units.size(), "units", *values);
  FetchSummary summary;
  try {
    run_fetches(plan, *backend, interrupted,
                [&](const PlannedUnit& unit, const std::vector<Fetches>& found,
                    const std::vector<TableRows>& rows) {
                  tables.add(rows);
                  summary.add(plan, unit, found);
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
