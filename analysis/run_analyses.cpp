#include "analysis/run_analyses.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "analysis/analyse_unit.h"
#include "analysis/analysis_costs.h"
#include "analysis/analysis_memory.h"
#include "analysis/analysis_needs.h"
#include "analysis/layer_stream.h"
#include "analysis/unit_table.h"
#include "policies/registry/standard_policies.h"
#include "sim/base/errors.h"
#include "sim/results/policy_code.h"
#include "sim/sweep/read_ahead.h"
#include "sim/sweep/run_sweep.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/sweep_jobs.h"

namespace kvsim {
namespace {

using UnitRuns = std::map<const PlannedUnit*, std::vector<PolicyRun>>;

/// Runs the remaining replays of the plan; the runs of a unit are sorted by budget and policy.
UnitRuns replay_all(const SweepPlan& plan, const Backend& backend,
                    const std::atomic<bool>& interrupted) {
  UnitRuns runs;
  run_sweep(plan, backend, interrupted,
            [&](const PlannedUnit& unit, std::vector<Outcome> outcomes) {
              for (Outcome& outcome : outcomes) {
                runs[&unit].push_back({Spec(outcome.result.policy),
                                       static_cast<int>(outcome.result.budget),
                                       static_cast<int>(outcome.result.peak_tokens),
                                       std::move(outcome.trajectory), std::move(outcome.amounts)});
              }
            });
  // Threads report in any order.
  for (auto& [unit, of_unit] : runs) {
    std::sort(of_unit.begin(), of_unit.end(), [](const PolicyRun& a, const PolicyRun& b) {
      return std::pair(a.budget, a.policy.text()) < std::pair(b.budget, b.policy.text());
    });
  }
  return runs;
}

bool any_of(const std::vector<AnalysisSpec>& analyses, bool AnalysisInfo::*trait) {
  return std::any_of(analyses.begin(), analyses.end(),
                     [&](const AnalysisSpec& spec) { return spec.info->*trait; });
}

bool looks_at_streams(const std::vector<AnalysisSpec>& analyses) {
  return any_of(analyses, &AnalysisInfo::needs_stream);
}

/// The replays of the layer of `unit`, whose heads stand one after the other. All heads have the
/// same ones in the same order.
std::vector<LayerRun> layer_runs_of(const UnitRuns& runs, const PlannedUnit& unit) {
  std::vector<LayerRun> of_layer;
  for (const auto& [planned, of_unit] : runs) {
    if (planned->unit.name.layer != unit.unit.name.layer) continue;
    of_layer.resize(of_unit.size());
    for (std::size_t run = 0; run < of_unit.size(); ++run) of_layer[run].push_back(&of_unit[run]);
  }
  return of_layer;
}

bool looks_at_replays(const AnalysisPlan& plan) {
  return std::any_of(plan.analyses.begin(), plan.analyses.end(),
                     [](const AnalysisSpec& spec) { return spec.info->accepts != nullptr; });
}

/// Of the layers whose streams are computed at one time: three matrices [tokens, hidden] each.
std::size_t stream_bytes(const AnalysisPlan& plan) {
  if (!looks_at_streams(plan.analyses)) return 0;
  std::size_t largest = 0;
  for (const PlannedUnit& unit : plan.sweep.units) {
    const LayerInfo& layer = layer_info(plan.sweep.traces[unit.trace], unit.unit.name);
    const auto entries = static_cast<std::size_t>(unit.unit.num_tokens) * layer.hidden;
    largest = std::max(largest, 3 * sizeof(float) * entries);
  }
  return largest * std::max(1, plan.sweep.request.threads);
}

/// What is analysed together: units whose replays or whose layer's stream are computed together,
/// and those of a layer of which a row is.
Grain grain_of(const AnalysisPlan& plan) {
  const bool by_layer =
      looks_at_streams(plan.analyses) || any_of(plan.analyses, &AnalysisInfo::spans_heads);
  Grain grain = by_layer ? Grain::layer : Grain::head;
  if (!looks_at_replays(plan)) return grain;
  for (const SweepJob& job : jobs_of(plan.sweep)) {
    if (job.units.size() == 1 && !job.needs_profiles) continue;
    const bool is_layer = job.units.front().name.layer == job.units.back().name.layer;
    if (!is_layer || job.needs_profiles) return Grain::sequence;
    grain = Grain::layer;
  }
  return grain;
}

/// The analyses with their parameters.
std::string text_of(const std::vector<AnalysisSpec>& analyses) {
  std::string text = "analyze";
  for (const AnalysisSpec& spec : analyses) {
    text += fmt::format(" {}:{}", spec.info->name, spec.params.text());
  }
  return text;
}

/// policy_code() by the text of the policy.
using PolicyCodes = std::map<std::string, std::string>;

/// The code of the policies that the row is about, joined by '+'.
std::string code_of(const PolicyCodes& codes, const AnalysisInfo& info, const AnalysisRow& row) {
  std::vector<std::string> of_row;
  for (std::size_t i = 0; i < info.columns.size(); ++i) {
    if (!info.columns[i].name.ends_with("policy")) continue;
    of_row.push_back(codes.at(std::get<std::string>(row.values[i])));
  }
  return fmt::format("{}", fmt::join(of_row, "+"));
}

/// The values of all columns of schema_of(info).
std::vector<Value> full_row(const Trace& trace, const Unit& unit, const AnalysisInfo& info,
                            const AnalysisRow& row, const PolicyCodes& codes) {
  const UnitName& name = unit.name;
  constexpr std::size_t kCommonColumns = 8;  // at most
  std::vector<Value> values;
  values.reserve(kCommonColumns + row.values.size());
  values.insert(values.end(), {Value(trace.id()), name.sequence, std::int64_t{name.layer}});
  if (!info.spans_heads) {
    values.emplace_back(std::int64_t{name.kv_head * unit.group_size() + row.head});
  }
  const auto first_other = row.values.begin() + num_keys(info);
  values.insert(values.end(), row.values.begin(), first_other);
  if (!info.spans_heads) values.emplace_back(std::int64_t{name.kv_head});
  values.insert(values.end(), first_other, row.values.end());
  values.emplace_back(trace.file().string());
  values.emplace_back(version());
  if (replays_policies(info)) values.emplace_back(code_of(codes, info, row));
  return values;
}

/// The tables of one unit.
std::vector<TableRows> analyse(const AnalysisPlan& plan, const PlannedUnit& planned,
                               const Unit& unit, const UnitRuns& runs, const Backend& backend,
                               LayerStreams& streams, const std::atomic<bool>& interrupted) {
  const Trace& trace = plan.sweep.traces[planned.trace];
  AnalysisOptions options{.protocol = plan.sweep.request.protocol,
                          .seed = plan.sweep.request.seed,
                          .interrupted = &interrupted};
  if (stands_for_layer(trace, unit.name)) {
    options.read_rows = [&](Dataset dataset, const SeeRows& see) {
      trace.read_rows(dataset, unit.name.sequence, unit.name.layer, see);
    };
    options.layer_runs = layer_runs_of(runs, planned);
  }
  if (looks_at_streams(plan.analyses)) {
    options.stream = &streams.at(unit.name.sequence, unit.name.layer);
  }
  auto results = analyse_unit(unit, plan.analyses, runs.at(&planned), options, backend);
  PolicyCodes codes;
  for (const Spec& policy : plan.sweep.request.policies) codes[policy.text()] = policy_code(policy);
  std::vector<TableRows> tables;
  for (std::size_t i = 0; i < results.size(); ++i) {
    TableRows& table = tables.emplace_back(TableRows{&plan.schemas[i], {}});
    table.rows.reserve(results[i].size());
    for (AnalysisRow& row : results[i]) {
      table.rows.push_back(full_row(trace, unit, *plan.analyses[i].info, row, codes));
      row.values = {};  // there may be millions
    }
  }
  tables.push_back({&plan.schemas.back(), {unit_row(trace, unit)}});
  return tables;
}

}  // namespace

std::size_t AnalysisPlan::memory_bytes() const {
  const std::vector<SweepJob> jobs = jobs_of(sweep);
  std::size_t beyond = 0;
  for (const SweepJob& job : jobs) {
    beyond = std::max(beyond, analysis_bytes(*this, job, replay_shape(sweep, job)));
  }
  const auto at_once = static_cast<std::size_t>(std::max(1, sweep.request.threads));
  const std::size_t of_replays = kvsim::memory_bytes(sweep, jobs, *make_cpu_backend()) +
                                 stream_bytes(*this) +
                                 beyond * std::min(at_once, sweep.units.size());
  if (!looks_at_replays(*this)) return of_replays;
  // The trajectories of a sequence are kept until its units have been analysed.
  std::map<std::pair<std::size_t, std::string>, std::size_t> of_sequence;
  std::size_t largest = 0;
  for (const PlannedUnit& unit : sweep.units) {
    const auto group = static_cast<std::size_t>(unit.unit.shape.group_size());
    const std::size_t per_token = sizeof(std::int32_t) + 2 * sizeof(float) * group;
    std::size_t& sum = of_sequence[{unit.trace, unit.unit.name.sequence}];
    sum += unit.replays.size() * static_cast<std::size_t>(unit.unit.num_tokens) * per_token;
    largest = std::max(largest, sum);
  }
  return of_replays + largest;
}

AnalysisPlan plan_analyses(std::vector<AnalysisSpec> analyses, SweepRequest request,
                           bool leave_out) {
  AnalysisPlan plan;
  // Removes the analyses for which `check` throws.
  const auto keep = [&](const auto& check) {
    std::erase_if(analyses, [&](const AnalysisSpec& spec) {
      try {
        check(*spec.info);
        return false;
      } catch (const std::exception& error) {
        if (!leave_out) throw;
        plan.left_out.emplace_back(error.what());
        return true;
      }
    });
  };
  keep([&](const AnalysisInfo& info) { check_policies(info, request.policies); });
  keep([&](const AnalysisInfo& info) {
    if (!info.by_token) return;
    check_evicts_by_token(request.protocol,
                          fmt::format("{} speaks of caches that evict one token at a time; leave "
                                      "one of them out",
                                      info.name));
  });
  check_evicts_every_step(request.protocol,
                          "the analyses speak of caches that hold their budget after every step; "
                          "leave it out, or use kvsim sweep");
  if (request.policies.empty()) {  // placeholder that is never replayed
    request.policies = {full_cache()};
    request.budgets = {Amount::parse("1.0", "budget")};
  }
  request.trajectories = true;
  const Shard shard = std::exchange(request.shard, {});
  plan.sweep = plan_sweep(std::move(request));
  keep([&](const AnalysisInfo& info) { check_traces(info, plan.sweep); });
  if (analyses.empty()) throw UsageError("there is no analysis left to do");
  plan.analyses = std::move(analyses);
  if (!looks_at_replays(plan)) {
    check_evicts_by_token(plan.sweep.request.protocol,
                          "none of the analyses replays caches; leave it out");
  }
  plan.sweep.request.selections =
      std::any_of(plan.analyses.begin(), plan.analyses.end(),
                  [](const AnalysisSpec& spec) { return spec.info->reads_selections; });
  for (const AnalysisSpec& spec : plan.analyses) plan.schemas.push_back(schema_of(*spec.info));
  plan.schemas.push_back(unit_schema());
  const AnalysisCosts costs(plan, looks_at_replays(plan));
  keep_shard_of_units(plan.sweep, shard,
                      {.what = text_of(plan.analyses),
                       .grain = grain_of(plan),
                       .cost = [&](const PlannedUnit& unit) { return costs.of(unit); }});
  return plan;
}

void run_analyses(AnalysisPlan& plan, const Backend& backend, const std::atomic<bool>& interrupted,
                  const UnitAnalysed& finished) {
  const bool replays = looks_at_replays(plan);
  std::vector<PlannedUnit>& units = plan.sweep.units;
  for (PlannedUnit& unit : units) unit.remaining.clear();
  std::mutex reporting;
  const auto same_sequence = [](const PlannedUnit& a, const PlannedUnit& b) {
    return a.trace == b.trace && a.unit.name.sequence == b.unit.name.sequence;
  };
  for (auto first = units.begin(); first != units.end();) {
    const auto last = std::find_if_not(
        first, units.end(), [&](const PlannedUnit& unit) { return same_sequence(unit, *first); });
    UnitRuns runs;
    if (replays) {
      for (auto unit = first; unit != last; ++unit) unit->remaining = unit->replays;
      runs = replay_all(plan.sweep, backend, interrupted);
      for (auto unit = first; unit != last; ++unit) unit->remaining.clear();
    }
    for (auto unit = first; unit != last; ++unit) runs.try_emplace(&*unit);
    LayerStreams streams(plan.sweep.traces[first->trace], backend);
    const auto planned_of = [&](std::size_t i) -> const PlannedUnit& {
      return *(first + static_cast<std::ptrdiff_t>(i));
    };
    const auto read = [&](std::size_t i) {
      const PlannedUnit& planned = planned_of(i);
      return plan.sweep.traces[planned.trace].read_unit(planned.unit.name);
    };
    const auto look = [&](std::size_t i, const Unit& unit) {
      const PlannedUnit& planned = planned_of(i);
      const auto tables = analyse(plan, planned, unit, runs, backend, streams, interrupted);
      const std::lock_guard<std::mutex> lock(reporting);
      finished(planned, tables);
    };
    in_parallel_with_read(static_cast<std::size_t>(last - first), plan.sweep.request.threads,
                          interrupted, read, look);
    first = last;
  }
}

}  // namespace kvsim
