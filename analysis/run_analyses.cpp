#include "analysis/run_analyses.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "sim/core/attention_blocks.h"
#include "sim/core/in_parallel.h"
#include "sim/core/version.h"
#include "traces/errors.h"

namespace kvsim {
namespace {

/// Why the analysis cannot be done, if so: thrown, or a reason to leave it out.
void check_policies(const AnalysisInfo& info, const std::vector<Spec>& policies) {
  if (info.accepts == nullptr || std::any_of(policies.begin(), policies.end(), info.accepts)) {
    return;
  }
  throw UsageError(fmt::format(
      "analysis {} looks at replays: expected {} among --policies, with --budgets", info.name,
      policies.empty() ? "a policy" : "one that it can look at (kvsim analyze --help)"));
}

void check_tokens(const AnalysisInfo& info, const SweepPlan& plan) {
  if (!info.needs_tokens) return;
  for (const PlannedUnit& unit : plan.units) {
    const Trace& trace = plan.traces[unit.trace];
    for (const SequenceInfo& sequence : trace.sequences()) {
      if (sequence.name != unit.unit.name.sequence || sequence.has_token_ids) continue;
      throw DataError(fmt::format(
          "{}: /sequences/{}/token_ids: expected the tokens, which the analysis {} needs, found "
          "nothing; record them, or leave the analysis out",
          trace.file().string(), sequence.name, info.name));
    }
  }
}

template <class Error, class Check>
bool holds(bool leave_out, const Check& check) {
  try {
    check();
    return true;
  } catch (const Error&) {
    if (!leave_out) throw;
    return false;
  }
}

using UnitRuns = std::map<const PlannedUnit*, std::vector<PolicyRun>>;

/// Replays what remains of the plan.
UnitRuns replay_all(const SweepPlan& plan, const Backend& backend,
                    const std::atomic<bool>& interrupted) {
  UnitRuns runs;
  run_sweep(plan, backend, interrupted,
            [&](const PlannedUnit& unit, std::vector<Outcome> outcomes) {
              for (Outcome& outcome : outcomes) {
                runs[&unit].push_back({Spec(outcome.result.policy),
                                       static_cast<int>(outcome.result.budget),
                                       std::move(outcome.trajectory)});
              }
            });
  return runs;
}

std::vector<std::vector<double>> total_attention(const Unit& unit, const Backend& backend) {
  std::vector<std::vector<double>> totals(unit.query.size(),
                                          std::vector<double>(unit.num_tokens(), 0));
  for_each_block(unit, unit.num_tokens(), backend, [&](const AttentionBlock& block) {
    for (std::size_t head = 0; head < totals.size(); ++head) {
      for (int row = 0; row < block.num_steps; ++row) {
        const double sum = block.heads[head].weight_sum[row];
        for (int j = 0; j <= block.first_step + row; ++j) {
          totals[head][j] += block.heads[head].weight(row, j) / sum;
        }
      }
    }
  });
  return totals;
}

template <class Predicate>
bool any(const AnalysisPlan& plan, const Predicate& predicate) {
  return std::any_of(plan.analyses.begin(), plan.analyses.end(),
                     [&](const AnalysisSpec& spec) { return predicate(*spec.info); });
}

/// The analyses of one unit.
class UnitAnalyses {
 public:
  UnitAnalyses(const AnalysisPlan& plan, const Unit& unit, std::vector<PolicyRun> runs,
               const Backend& backend)
      : plan_(plan), unit_(unit) {
    std::vector<std::vector<double>> totals;
    if (any(plan, [](const AnalysisInfo& info) { return info.looks_ahead; })) {
      totals = total_attention(unit, backend);
    }
    for (const AnalysisSpec& spec : plan.analyses) {
      auto subject = std::make_unique<Subject>(
          Subject{unit, {}, plan.sweep.request.mode, plan.sweep.request.seed});
      if (spec.info->looks_ahead) subject->total_attention = totals;
      if (spec.info->accepts != nullptr) {
        std::copy_if(runs.begin(), runs.end(), std::back_inserter(subject->runs),
                     [&](const PolicyRun& run) { return spec.info->accepts(run.policy); });
      }
      analyses_.push_back(spec.info->make(spec.params, *subject));
      subjects_.push_back(std::move(subject));
    }
  }

  void run(const Backend& backend, const std::atomic<bool>& interrupted) {
    if (!any(plan_, [](const AnalysisInfo& info) { return info.reads_attention; })) return;
    for_each_block(unit_, unit_.num_tokens(), backend, [&](const AttentionBlock& block) {
      if (interrupted) throw Interrupted("interrupted");
      for (const auto& analysis : analyses_) analysis->add(block);
    });
  }

  std::vector<TableRows> rows(const Trace& trace) {
    std::vector<TableRows> tables;
    for (std::size_t i = 0; i < analyses_.size(); ++i) {
      TableRows& table = tables.emplace_back(TableRows{&plan_.schemas[i], {}});
      for (AnalysisRow& row : analyses_[i]->finish()) {
        table.rows.push_back(full_row(trace, *plan_.analyses[i].info, std::move(row)));
      }
    }
    return tables;
  }

 private:
  /// The values of all columns of schema_of(info).
  std::vector<Value> full_row(const Trace& trace, const AnalysisInfo& info, AnalysisRow row) const {
    const UnitName& name = unit_.name;
    const auto num_keys = std::count_if(info.columns.begin(), info.columns.end(),
                                        [](const ColumnSchema& column) { return column.is_key; });
    std::vector<Value> values{trace.id(), name.sequence, std::int64_t{name.layer},
                              std::int64_t{name.kv_head * unit_.group_size() + row.head}};
    const auto first_other = row.values.begin() + num_keys;
    values.insert(values.end(), row.values.begin(), first_other);
    values.push_back(std::int64_t{name.kv_head});
    values.insert(values.end(), first_other, row.values.end());
    values.push_back(trace.file().string());
    values.push_back(version());
    return values;
  }

  const AnalysisPlan& plan_;
  const Unit& unit_;
  std::vector<std::unique_ptr<Subject>> subjects_;  // which analyses may refer to
  std::vector<std::unique_ptr<Analysis>> analyses_;
};

}  // namespace

AnalysisPlan plan_analyses(std::vector<AnalysisSpec> analyses, SweepRequest request,
                           bool leave_out) {
  std::erase_if(analyses, [&](const AnalysisSpec& spec) {
    return !holds<UsageError>(leave_out, [&] { check_policies(*spec.info, request.policies); });
  });
  if (request.policies.empty()) {  // every token stays, and that needs no replay
    request.policies = parse_specs("full");
    request.budgets = {Amount::parse("1.0", "budget")};
  }
  request.trajectories = true;
  AnalysisPlan plan{std::move(analyses), {}, plan_sweep(std::move(request))};
  std::erase_if(plan.analyses, [&](const AnalysisSpec& spec) {
    return !holds<DataError>(leave_out, [&] { check_tokens(*spec.info, plan.sweep); });
  });
  if (plan.analyses.empty()) throw UsageError("there is no analysis left to do");
  for (const AnalysisSpec& spec : plan.analyses) plan.schemas.push_back(schema_of(*spec.info));
  return plan;
}

void run_analyses(AnalysisPlan& plan, const Backend& backend, const std::atomic<bool>& interrupted,
                  const UnitAnalysed& finished) {
  const bool replays = any(plan, [](const AnalysisInfo& info) { return info.accepts != nullptr; });
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
    in_parallel(static_cast<std::size_t>(last - first), plan.sweep.request.threads, interrupted,
                [&](std::size_t i) {
                  const PlannedUnit& planned = *(first + static_cast<std::ptrdiff_t>(i));
                  const Trace& trace = plan.sweep.traces[planned.trace];
                  const Unit unit = trace.read_unit(planned.unit.name);
                  const auto of_unit = runs.find(&planned);
                  std::vector<PolicyRun> runs_of_unit;
                  if (of_unit != runs.end()) runs_of_unit = std::move(of_unit->second);
                  UnitAnalyses analyses(plan, unit, std::move(runs_of_unit), backend);
                  analyses.run(backend, interrupted);
                  const std::vector<TableRows> rows = analyses.rows(trace);
                  const std::lock_guard<std::mutex> lock(reporting);
                  finished(planned, rows);
                });
    first = last;
  }
}

}  // namespace kvsim
