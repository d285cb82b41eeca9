#include <fmt/format.h>

#include <iostream>

#include "policies/parameters/split.h"
#include "sim/cli/curve_summary.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/progress.h"
#include "sim/cli/session.h"
#include "sim/sweep/curve_table.h"

namespace kvsim::cli {
namespace {

/// As parse_specs(), but "all" is every policy with a curve, and "oracles" the one oracle with a
/// curve.
std::vector<Spec> parse_policies(const std::string& list) {
  std::vector<Spec> specs;
  for (const std::string_view part : split(list, ';')) {
    if (part.empty()) continue;
    std::vector<Spec> named = part == "all" ? policies_with_curves() : parse_specs(part);
    if (part == "oracles") {
      std::erase_if(named, [](const Spec& spec) { return !spec.plans_every_budget(); });
    }
    specs.insert(specs.end(), named.begin(), named.end());
  }
  if (specs.empty()) parse_specs(list);  // throws
  return each_once(std::move(specs));
}

void announce(const CurvePlan& plan) {
  std::cerr << fmt::format("kvsim: curves of {} policies on {} units; {}\n",
                           plan.sweep.request.policies.size(), plan.sweep.units.size(),
                           memory_note(plan.memory_bytes(), plan.sweep.request.threads));
}

}  // namespace

int run_curve(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options("Options");
  options.add_options()("policies", po::value<std::string>(),
                        "specs separated by ';'; all: every policy whose caches nest; optimal: the "
                        "best there is")(
      "output-error", po::value<std::string>()->default_value("none"),
      "at which budgets to compute output errors, too: none, all, every:32 or 5%,10%,256")(
      "output,o", po::value<std::string>(),
      "the result file (SQLite); rows of its table curve with the same key are replaced");
  options.add(session_options());
  const auto values = parse(verb, arguments, options, {"TRACE"});
  if (!values) return 0;

  SweepRequest request = request_from(*values);
  for (const std::string& trace : positionals_from(verb, *values, "TRACE"))
    request.traces.emplace_back(trace);
  request.policies =
      with_allocation(parse_policies(required_from(verb, *values, "policies")), *values);
  const std::string file = required_from(verb, *values, "output");
  const auto backend = backend_from(*values);
  const CurvePlan plan =
      plan_curves(std::move(request),
                  ErrorBudgets((*values)["output-error"].as<std::string>(), "--output-error"));
  ResultStore store(file, ResultStore::Access::write);
  const TableSchema schema = curve_schema();
  store.create(schema);

  const std::atomic<bool>& interrupted = catch_interrupts();
  const std::size_t num_units = plan.sweep.units.size();
  if (values->count("quiet") == 0) announce(plan);
  Progress progress(num_units, *values);
  CurveSummary summary;
  try {
    run_curves(plan, *backend, interrupted,
               [&](const PlannedUnit& unit, const std::vector<Curve>& curves,
                   const std::vector<std::vector<Value>>& rows) {
                 store.replace({{&schema, rows}});
                 summary.add(unit, curves);
                 progress.advance(unit.unit.name);
               });
  } catch (const Interrupted&) {
    throw Interrupted(fmt::format("interrupted after {} of {} units, which {} keeps",
                                  progress.finished(), num_units, file));
  }
  summary.write(std::cout, plan);
  return 0;
}

}  // namespace kvsim::cli
