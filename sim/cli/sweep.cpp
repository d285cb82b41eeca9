#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "sim/cli/command_line.h"
#include "sim/cli/policy_list.h"
#include "sim/cli/session.h"
#include "sim/cli/sweep_table.h"
#include "sim/results/policy_code.h"
#include "sim/results/regret.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim::cli {
namespace {

// Stores the rows of one unit, unless one of them or of its earlier rows exceeds a bound. Earlier
// rows of another code, and those that are replaced, say nothing about these.
void store_unit(const std::vector<Outcome>& outcomes, ResultStore& store) {
  std::vector<Result> rows;
  std::vector<CertificateRow> certificates;
  for (const Outcome& outcome : outcomes) {
    rows.push_back(outcome.result);
    if (outcome.recall_bound) certificates.push_back({outcome.result, *outcome.recall_bound});
  }
  std::vector<Result> of_unit = store.unit_results(rows.front());
  std::erase_if(of_unit, [&](const Result& earlier) {
    return !is_current(earlier) || std::any_of(rows.begin(), rows.end(), [&](const Result& row) {
      return row.policy == earlier.policy && row.budget == earlier.budget;
    });
  });
  of_unit.insert(of_unit.end(), rows.begin(), rows.end());
  check_bounds(of_unit);
  store.add(rows, certificates);
}

// Leaves out what the file holds already, and notes what it holds of another code.
void skip_finished_rows(SweepPlan& plan, const ResultStore& store, bool quiet) {
  std::size_t rows = 0;
  std::vector<std::string> policies;
  for (const auto& [policy, count] : skip_finished(plan, store)) {
    rows += count;
    policies.push_back(policy);
  }
  if (rows == 0 || quiet) return;
  std::cerr << fmt::format("kvsim: {} of another code of {} {} made again\n", counted(rows, "row"),
                           fmt::join(policies, ", "), rows == 1 ? "is" : "are");
}

}  // namespace

int run_sweep(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options("Options");
  options.add_options()("policies", po::value<std::vector<std::string>>(),
                        "specs separated by ';', or the option again; h2o:recent={0,0.5}: one "
                        "spec each; mine=SPEC: shown as mine; all: every policy with its "
                        "defaults, oracles: every oracle, without those that other options rule "
                        "out")(
      "budgets", po::value<std::vector<std::string>>(),
      "budgets separated by commas, or the option again: 5%,0.2,256; 5%..50%:5% for a range with "
      "its step")("output,o", po::value<std::string>(),
                  "the result file (SQLite); what it holds already of the same code is not "
                  "replayed again")("force", "replay also what it holds already");
  options.add(session_options()).add(measuring_options());
  const auto values = parse(verb, arguments, options, {"TRACE"});
  if (!values) return 0;

  SweepRequest request = request_from(*values);
  request.measuring = measuring_from(*values);
  for (const std::string& trace : positionals_from(verb, *values, "TRACE"))
    request.traces.emplace_back(trace);
  request.policies = policies_from(verb, *values, request);
  request.budgets = parse_budgets(joined_from(verb, *values, "budgets", ','));
  const std::string file = required_from(verb, *values, "output");

  const auto backend = backend_from(*values);
  SweepPlan plan = plan_sweep(std::move(request));
  ResultStore store(file, ResultStore::Access::write);
  if (!plan.request.measuring.has_reference()) store.check_accepts_unmeasured();
  if (values->count("force") == 0) {
    skip_finished_rows(plan, store, values->count("quiet") > 0);
  }
  const bool relabelled = update_labels(plan, store);
  if (plan.num_remaining() > 0 || relabelled) {
    store.begin_run(command_line(verb, arguments, *values), backend->device(),
                    plan.request.threads);
  }
  try {
    run_plan(plan, *backend, *values,
             [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
               store_unit(outcomes, store);
             });
  } catch (const Interrupted& interrupted) {
    throw Interrupted(fmt::format("{}, which {} keeps; the same command does the rest",
                                  interrupted.what(), file));
  }
  write_sweep_table(std::cout, plan, store);
  return 0;
}

}  // namespace kvsim::cli
