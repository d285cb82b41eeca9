#include "sim/sweep/run_curves.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "sim/base/errors.h"
#include "sim/kernels/attention_kernels.h"
#include "sim/protocol/budget.h"
#include "sim/results/policy_code.h"
#include "sim/results/regret.h"
#include "sim/sweep/curve_table.h"
#include "sim/sweep/memory.h"
#include "sim/sweep/read_ahead.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/shards/unit_cost.h"

namespace kvsim {
namespace {

/// The budgets with output errors.
std::vector<int> errors_of(const CurvePlan& plan, const PlannedUnit& planned) {
  const SelectedUnit& unit = planned.unit;
  return plan.errors.of(plan.sweep.request.protocol, unit.num_tokens, unit.prompt_length);
}

ReplayShape replay_shape(const CurvePlan& plan, const PlannedUnit& planned) {
  const std::vector<Spec>& policies = plan.sweep.request.policies;
  ReplayShape shape = shape_of(planned.unit);
  shape.configurations = policies.size();
  shape.oracles = std::any_of(policies.begin(), policies.end(),
                              [](const Spec& policy) { return policy.is_oracle(); });
  shape.losses = std::any_of(policies.begin(), policies.end(),
                             [](const Spec& policy) { return !has_regret(policy); });
  return shape;
}

std::size_t unit_memory(const CurvePlan& plan, const PlannedUnit& planned) {
  const SweepRequest& request = plan.sweep.request;
  const ReplayShape shape = replay_shape(plan, planned);
  const std::size_t n = shape.num_tokens;
  const std::size_t group = shape.group_size;
  std::size_t errors = 0;
  const auto budgets = errors_of(plan, planned);
  const int first = request.protocol.first_measured(planned.unit.prompt_length);
  for (const int budget : budgets) {
    const int steps = planned.unit.num_tokens - std::max(budget, first);
    errors += static_cast<std::size_t>(std::max(0, steps)) * group * sizeof(float);
  }
  // Sums per place, of which pages that are longer than the text have more than it has tokens.
  const Paging& paging = request.protocol.paging;
  errors += (paging.pages_for(planned.unit.num_tokens) * paging.size - n) *
            (sizeof(double) + sizeof(std::int32_t));
  // Values, and per policy a block's orders, weights and distances by place.
  const std::size_t values = budgets.empty() ? 0 : n * shape.value_dim * sizeof(float);
  if (!budgets.empty()) {
    errors += kBlockSteps * ((2 * group + 2) * n + 6 * budgets.size()) * sizeof(float);
  }
  // The schedules of an oracle's plans. The order of their evictions, half as much, takes the place
  // of the tables.
  const std::size_t num_budgets = every_budget(request.protocol, planned.unit.num_tokens).size();
  const std::size_t plans = shape.oracles ? sizeof(std::int32_t) * n * num_budgets : 0;
  // Rows are made when the curves are there.
  constexpr std::size_t kBytesPerRow = 1600;
  const std::size_t read = read_memory(shape);
  const std::size_t work =
      replay_memory(shape) - read + values + plans + request.policies.size() * errors;
  return read + std::max(work, request.policies.size() * num_budgets * kBytesPerRow);
}

std::vector<std::vector<Value>> rows_of(const CurvePlan& plan, const PlannedUnit& planned,
                                        const Unit& unit, const std::vector<Curve>& curves,
                                        const std::string& device) {
  const Trace& trace = plan.sweep.traces[planned.trace];
  const SweepRequest& request = plan.sweep.request;
  CurveLabels labels{.trace_id = trace.id(),
                     .unit = unit.name,
                     .policy = {},
                     .mode = plan.sweep.mode(),
                     .seed = request.seed,
                     .bytes_per_token = static_cast<std::size_t>(
                         unit.key.cols() * unit.key_bytes + unit.value.cols() * unit.value_bytes),
                     .trace = trace.file().string(),
                     .device = device,
                     .policy_code = {}};
  std::vector<std::vector<Value>> rows;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    labels.policy = request.policies[i].text();
    labels.label = request.policies[i].label();
    labels.policy_code = policy_code(request.policies[i]);
    auto of_curve = curve_rows(curves[i], labels);
    std::move(of_curve.begin(), of_curve.end(), std::back_inserter(rows));
  }
  return rows;
}

/// An estimate of the time that a unit's curves take on one core; see shards/README.md.
std::int64_t curve_nanoseconds(const CurvePlan& plan, const PlannedUnit& planned) {
  const UnitSizes unit = unit_sizes(plan.sweep, planned);
  const SweepRequest& request = plan.sweep.request;
  const auto budgets = std::ssize(errors_of(plan, planned));
  std::int64_t per_pair = 4 + 2 * unit.group;
  if (budgets > 0) per_pair += unit.group * (8 + 17 * budgets / unit.tokens);
  std::int64_t sum = reading_nanoseconds(unit) + reference_nanoseconds(unit, unit.pairs());
  for (const Spec& policy : request.policies) {
    sum += unit.pairs() * per_pair;
    if (policy.is_oracle()) {
      sum += future_nanoseconds(unit) + planning_nanoseconds(policy, unit, 1);
    }
  }
  return sum;
}

}  // namespace

std::size_t CurvePlan::memory_bytes() const {
  std::size_t largest = 0;
  std::size_t ahead = 0;
  for (const PlannedUnit& unit : sweep.units) {
    largest = std::max(largest, unit_memory(*this, unit));
    ahead = std::max(ahead, read_memory(replay_shape(*this, unit)));
  }
  const int threads = sweep.request.threads;
  return largest * std::min(static_cast<std::size_t>(threads), sweep.units.size()) +
         read_ahead_memory(sweep.units.size(), threads, ahead);
}

NamedSpecs specs_with_curves() {
  return {.all = policies_with_curves, .oracles = [] {
            std::vector<Spec> oracles = every_spec().oracles();
            std::erase_if(oracles, [](const Spec& spec) { return !spec.plans_every_budget(); });
            return oracles;
          }};
}

CurvePlan plan_curves(SweepRequest request, ErrorBudgets errors) {
  check_evicts_every_step(request.protocol,
                          "between its evictions a cache may hold tokens that a larger budget has "
                          "evicted, so budgets cannot be followed all at once; use kvsim sweep");
  for (const Spec& policy : request.policies) check_has_curve(policy);
  errors.check(request.protocol);
  request.budgets = {Amount::parse("1.0", "budget")};
  const Shard shard = std::exchange(request.shard, {});
  CurvePlan plan{plan_sweep(std::move(request)), std::move(errors)};
  keep_shard_of_units(
      plan.sweep, shard,
      {.what = "curve " + plan.errors.text(),
       .grain = Grain::head,
       .cost = [&](const PlannedUnit& unit) { return curve_nanoseconds(plan, unit); }});
  return plan;
}

void run_curves(const CurvePlan& plan, const Backend& backend, const std::atomic<bool>& interrupted,
                const CurvesFinished& finished) {
  const SweepRequest& request = plan.sweep.request;
  const TableSchema schema = curve_schema();
  std::mutex reporting;
  const auto read = [&](std::size_t i) {
    const PlannedUnit& planned = plan.sweep.units[i];
    return plan.sweep.traces[planned.trace].read_unit(planned.unit.name);
  };
  const auto follow = [&](std::size_t i, const Unit& unit) {
    const PlannedUnit& planned = plan.sweep.units[i];
    const CurveOptions options{.protocol = request.protocol,
                               .seed = static_cast<std::uint64_t>(request.seed),
                               .error_budgets = errors_of(plan, planned),
                               .interrupted = &interrupted};
    const std::vector<Curve> curves = curves_of(unit, request.policies, options, backend);
    std::vector<TableRows> tables;
    tables.push_back({&schema, rows_of(plan, planned, unit, curves, backend.device())});
    const std::lock_guard<std::mutex> lock(reporting);
    finished(planned, curves, tables);
  };
  in_parallel_with_read(plan.sweep.units.size(), request.threads, interrupted, read, follow);
}

}  // namespace kvsim
