#include "sim/sweep/stored_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>
#include <tuple>

#include "sim/results/policy_code.h"
#include "sim/results/regret.h"

namespace kvsim {
namespace {

/// Earlier rows of another code, and those that are replaced, say nothing about these.
void check_bounds_of_unit(const std::vector<Outcome>& outcomes, const ResultSink& sink) {
  std::vector<Result> of_unit = sink.unit_results(outcomes.front().result);
  std::erase_if(of_unit, [&](const Result& earlier) {
    return !is_current(earlier) ||
           std::any_of(outcomes.begin(), outcomes.end(), [&](const Outcome& outcome) {
             return outcome.result.policy == earlier.policy &&
                    outcome.result.budget == earlier.budget;
           });
  });
  for (const Outcome& outcome : outcomes) of_unit.push_back(outcome.result);
  check_bounds(of_unit);
}

}  // namespace

RunLabels labels_of(const SweepPlan& plan, std::string command, std::string device) {
  const Shard& shard = plan.request.shard;
  return {.command = std::move(command),
          .device = std::move(device),
          .threads = plan.request.threads,
          .shard = shard.is_all() ? "" : shard_name(shard),
          .study = plan.study};
}

std::map<std::string, std::size_t> begin_sweep(SweepPlan& plan, ResultStore& store,
                                               const RunLabels& labels, bool force) {
  if (!plan.request.protocol.measures()) store.check_accepts_unmeasured();
  std::map<std::string, std::size_t> of_another_code;
  if (!force) of_another_code = skip_finished(plan, store);
  const bool relabelled = update_labels(plan, store);
  if (plan.num_remaining() > 0 || relabelled || !labels.shard.empty()) store.begin_run(labels);
  return of_another_code;
}

std::string note_of_another_code(const std::map<std::string, std::size_t>& rows) {
  std::size_t sum = 0;
  std::vector<std::string> policies;
  for (const auto& [policy, count] : rows) {
    sum += count;
    policies.push_back(policy);
  }
  if (sum == 0) return "";
  return fmt::format("{} of another code of {} {} made again",
                     sum == 1 ? "1 row" : fmt::format("{} rows", sum), fmt::join(policies, ", "),
                     sum == 1 ? "is" : "are");
}

void store_unit(const std::vector<Outcome>& outcomes, ResultSink& sink) {
  store_units({outcomes}, sink);
}

void store_units(const std::vector<std::vector<Outcome>>& units, ResultSink& sink) {
  std::vector<Result> rows;
  std::vector<CertificateRow> certificates;
  std::vector<LayerErrorRow> layer_errors;
  std::vector<SampledIntervalRow> intervals;
  std::exception_ptr refused;
  for (const std::vector<Outcome>& outcomes : units) {
    try {
      check_bounds_of_unit(outcomes, sink);
    } catch (const BoundExceeded&) {
      if (!refused) refused = std::current_exception();
      continue;
    }
    for (const Outcome& outcome : outcomes) {
      rows.push_back(outcome.result);
      if (outcome.proof) certificates.push_back({outcome.result, *outcome.proof});
      if (outcome.layer_error) layer_errors.push_back({outcome.result, *outcome.layer_error});
      for (const SampledInterval& sampled : outcome.intervals) {
        intervals.push_back({outcome.result, sampled});
      }
    }
  }
  if (!rows.empty()) sink.add(rows, certificates, layer_errors, intervals);
  if (refused) std::rethrow_exception(refused);
}

std::vector<Result> rows_of_sweep(const SweepPlan& plan, const ResultStore& store) {
  const auto key_of = [](const Result& row) {
    return std::tie(row.trace_id, row.sequence, row.layer, row.kv_head, row.policy, row.budget);
  };
  std::vector<Result> asked;
  for (const PlannedUnit& unit : plan.units) {
    for (const PlannedReplay& replay : unit.replays) {
      set_key(plan, unit, replay, asked.emplace_back());
    }
  }
  const auto by_key = [&](const Result& a, const Result& b) { return key_of(a) < key_of(b); };
  std::sort(asked.begin(), asked.end(), by_key);
  std::vector<Result> rows;
  for (const Trace& trace : plan.traces) {
    for (Result& row : store.results(trace.id(), plan.mode(), plan.request.seed)) {
      if (std::binary_search(asked.begin(), asked.end(), row, by_key)) {
        rows.push_back(std::move(row));
      }
    }
  }
  std::sort(rows.begin(), rows.end(), by_key);
  return rows;
}

}  // namespace kvsim
