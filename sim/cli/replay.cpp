#include "sim/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <tuple>

#include "sim/base/errors.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/print_csv.h"
#include "sim/cli/session.h"
#include "sim/results/per_step_file.h"
#include "sim/summary/sampled_intervals.h"
#include "sim/summary/sweep_table.h"
#include "sim/sweep/cut_amounts.h"

namespace kvsim::cli {
namespace {

/// What is printed at the end.
struct Finished {
  std::vector<Result> results;
  std::vector<SampledIntervalRow> intervals;

  void add(Outcome outcome) {
    for (SampledInterval& sampled : outcome.intervals) {
      intervals.push_back({outcome.result, std::move(sampled)});
    }
    results.push_back(std::move(outcome.result));
  }
};

void print(Finished finished, const std::string& format) {
  std::vector<Result>& results = finished.results;
  std::sort(results.begin(), results.end(), [](const Result& a, const Result& b) {
    return std::tie(a.sequence, a.layer, a.kv_head) < std::tie(b.sequence, b.layer, b.kv_head);
  });
  if (format == "csv") {
    print_csv(to_table(results));
  } else if (format == "json") {
    write_json(std::cout, to_table(results));
  } else if (!results.empty()) {
    write_units(std::cout, results);
    write_unit_intervals(std::cout, finished.intervals);
  }
}

void check_per_step(const std::filesystem::path& trace, const std::filesystem::path& file) {
  if (file.empty()) throw UsageError("--per-step: the file needs a name");
  std::error_code not_there;
  if (std::filesystem::equivalent(trace, file, not_there)) {
    throw UsageError(fmt::format("--per-step: {} is the trace itself", file.string()));
  }
}

}  // namespace

int run_replay(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options("Options");
  options.add_options()("policy", po::value<std::string>(), "a spec: NAME or NAME:KEY=VALUE,...")(
      "budget", po::value<std::string>(),
      "tokens (256), a share (20%, 0.2), or bytes per KV head (64KiB)")(
      "per-step", po::value<std::string>(), "also write what happened at every step (HDF5)")(
      "format", po::value<std::string>()->default_value("table"), "table, csv or json");
  options.add(session_options()).add(measuring_options());
  const auto values = parse(verb, arguments, options, {"TRACE"});
  if (!values) return 0;

  SweepRequest request = request_of(options_from(*values));
  request.traces = {positional_from(verb, *values, "TRACE")};
  request.policies = specs_from({required_from(verb, *values, "policy")}, *values);
  if (request.policies.size() > 1) {
    throw UsageError(fmt::format("--policy takes one policy, found {}; use kvsim sweep",
                                 request.policies.size()));
  }
  request.budgets = parse_budgets(required_from(verb, *values, "budget"));
  if (request.budgets.size() > 1) throw UsageError("--budget takes one budget; use kvsim sweep");
  request.trajectories = values->count("per-step") > 0;
  const std::string format = choice_from(*values, "format", {"table", "csv", "json"});

  if (request.trajectories) {
    check_per_step(request.traces.front(), (*values)["per-step"].as<std::string>());
  }
  const auto backend = backend_from(*values);
  const SweepPlan plan = plan_sweep(std::move(request));
  print_notes(cut_amounts(plan), *values);
  catch_interrupts();  // before a file is begun, which else would stay
  std::optional<PerStepFile> per_step;
  if (plan.request.trajectories) per_step.emplace((*values)["per-step"].as<std::string>());
  Finished found;
  const auto keep_what_finished = [&] {
    if (per_step) per_step->close();
    print(std::move(found), format);
  };
  try {
    run_plan(plan, *backend, *values, [&](const PlannedUnit&, std::vector<Outcome> outcomes) {
      Outcome& outcome = outcomes.front();
      if (per_step) per_step->add(outcome.result, outcome.trajectory);
      found.add(std::move(outcome));
    });
  } catch (const Interrupted&) {
    // A per-step file of an earlier run stays.
    if (!found.results.empty()) print(std::move(found), format);
    throw;
  } catch (const DataError&) {
    if (!found.results.empty()) keep_what_finished();
    throw;
  }
  keep_what_finished();
  return 0;
}

}  // namespace kvsim::cli
