#include "sim/sweep/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "sim/base/errors.h"
#include "sim/replay/estimator_steps.h"
#include "sim/replay/replay_checks.h"
#include "sim/results/policy_code.h"
#include "sim/results/schedule_file.h"
#include "sim/results/score_file.h"
#include "sim/results/version.h"
#include "sim/sweep/allocate_by_table.h"
#include "sim/sweep/planned_budgets.h"
#include "sim/sweep/policy_files.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/split_tables.h"
#include "sim/sweep/trace_needs.h"
#include "sim/sweep/whole_layers.h"

namespace kvsim {
namespace {

void check_allocation(const Spec& policy, const Rules& rules) {
  if (splits_layers(policy.allocation()) && rules.scope != Scope::head) {
    throw UsageError(fmt::format(
        "{}: {} splits a layer's budget over its heads, which here share one cache; leave "
        "it out, or use another allocation",
        policy.text(), allocation_name(policy.allocation())));
  }
  if (policy.allocation() == Allocation::duo && policy.is_estimator()) {
    throw UsageError(
        fmt::format("{}: duo lets heads keep the whole text, which an estimator does not; leave it "
                    "out, or use another allocation",
                    policy.text()));
  }
}

void check_rotation(const Spec& policy, const Trace& trace, const SelectedUnit& unit,
                    const Rules& rules) {
  if (unit.shape.rope || !(rules.slot_positions || rules.sees_rotation)) return;
  throw DataError(
      fmt::format("{}: /sequences/{}/layers/{}/rope: expected how keys were rotated, which {} "
                  "needs, found nothing; record it, or {}",
                  trace.file().string(), unit.name.sequence, unit.name.layer, policy.text(),
                  rules.slot_positions ? "keep text positions" : "leave the policy out"));
}

void check_window(const Spec& policy, const Trace& trace, const SelectedUnit& unit,
                  const Rules& rules) {
  if (!rules.joins_tokens()) return;
  const char* const joining = rules.rest ? "+rest" : "+merge";
  if (unit.most_selected > 0) {
    throw DataError(fmt::format(
        "{}: sequence '{}', layer {}: expected a layer that sees all tokens for {}, since evicted "
        "ones are joined with others, found one that selects; leave {} out, or select other layers",
        trace.file().string(), unit.name.sequence, unit.name.layer, policy.text(), joining));
  }
  if (!unit.sliding_window && !unit.attention_chunk) return;
  throw DataError(fmt::format(
      "{}: sequence '{}', layer {}: expected no {} for {}, since it would hide evicted tokens one "
      "after the other, found one of {} tokens; leave {} out, or select other layers",
      trace.file().string(), unit.name.sequence, unit.name.layer,
      unit.sliding_window ? "sliding window" : "attention_chunk", policy.text(),
      unit.sliding_window ? *unit.sliding_window : *unit.attention_chunk, joining));
}

// Rules may depend on the budget.
void check_at_budget(const Spec& policy, const Rules& rules, const SweepRequest& request,
                     int budget) {
  check_allocation(policy, rules);
  check_protocol(request.protocol, policy, budget);
}

/// The rules of the request's policies at each budget, resolved and checked once.
class PlannedRules {
 public:
  explicit PlannedRules(const SweepRequest& request) : request_(request) {}

  std::shared_ptr<const Rules> of(std::size_t policy, int budget) {
    std::shared_ptr<const Rules>& rules = rules_[{policy, budget}];
    if (!rules) {
      const Spec& spec = request_.policies[policy];
      rules = std::make_shared<const Rules>(spec.rules({.budget = budget}));
      check_at_budget(spec, *rules, request_, budget);
      if (spec.is_estimator()) check_estimator(spec, budget);
    }
    return rules;
  }

 private:
  const SweepRequest& request_;
  std::map<std::pair<std::size_t, int>, std::shared_ptr<const Rules>> rules_;
};

std::vector<PlannedReplay> replays_of(const SweepRequest& request, const BudgetTable& budgets,
                                      PlannedRules& rules) {
  std::vector<PlannedReplay> replays;
  for (std::size_t amount = 0; amount < request.budgets.size(); ++amount) {
    for (std::size_t policy = 0; policy < request.policies.size(); ++policy) {
      const int budget = budgets[amount][policy];
      const auto same = [&](const PlannedReplay& other) {
        return other.policy == policy && other.budget == budget;
      };
      if (std::any_of(replays.begin(), replays.end(), same)) continue;
      replays.push_back(
          {policy, budget, request.budgets[amount].written(), rules.of(policy, budget)});
    }
  }
  return replays;
}

void add_trace(SweepPlan& plan, PlannedRules& rules, PlannedBudgets& budgets, Trace trace) {
  const auto same = [&](const Trace& other) { return other.id() == trace.id(); };
  if (std::any_of(plan.traces.begin(), plan.traces.end(), same)) return;
  for (SelectedUnit& unit : select_units(trace, plan.request.selection)) {
    check_text(plan.request.protocol, unit.name.sequence, unit.num_tokens, unit.prompt_length);
    PlannedUnit& planned = plan.units.emplace_back();
    planned.trace = plan.traces.size();
    planned.budgets = budgets.of(trace, unit);
    planned.replays = replays_of(plan.request, *planned.budgets, rules);
    for (const PlannedReplay& replay : planned.replays) {
      const Spec& policy = plan.policy_of(replay);
      check_rotation(policy, trace, unit, *replay.rules);
      check_needs(policy, trace, unit, plan.request.protocol);
      check_window(policy, trace, unit, *replay.rules);
    }
    planned.remaining = planned.replays;
    planned.unit = std::move(unit);
  }
  plan.traces.push_back(std::move(trace));
}

void check_schedules(const SweepPlan& plan) {
  for (std::size_t policy = 0; policy < plan.request.policies.size(); ++policy) {
    const Spec& spec = plan.request.policies[policy];
    if (!spec.policy().follows_schedule) continue;
    const ScheduleFile file(spec.file());
    for (const PlannedUnit& unit : plan.units) {
      for (const PlannedReplay& replay : unit.replays) {
        if (replay.policy == policy) file.require_budget(spec.tokens_of(replay.budget));
      }
    }
  }
}

/// Reads all scores that replays go by, so that none is missing hours later.
void check_scores(const SweepPlan& plan) {
  std::map<std::size_t, ScoreFile> files;
  for (const PlannedUnit& unit : plan.units) {
    std::set<std::size_t> checked;
    for (const PlannedReplay& replay : unit.replays) {
      const Spec& policy = plan.policy_of(replay);
      if (!policy.policy().reads_scores || !checked.insert(replay.policy).second) continue;
      const int count = replay.rules->prompt_only ? unit.unit.prompt_length : unit.unit.num_tokens;
      const auto file = files.try_emplace(replay.policy, policy.file()).first;
      (void)file->second.read(unit.unit.name, count, {});
    }
  }
}

/// Reads the files that splits follow, and checks that they are of the traces' models.
void check_splits(const SweepPlan& plan) {
  SplitTables tables;
  std::set<std::tuple<std::size_t, std::string, std::string>> checked;
  for (const PlannedUnit& unit : plan.units) {
    for (const PlannedReplay& replay : unit.replays) {
      const Spec& policy = plan.policy_of(replay);
      if (!policy.allocation_spec().reads_file()) continue;
      const std::string& sequence = unit.unit.name.sequence;
      if (checked.emplace(unit.trace, sequence, policy.allocation_spec().file()).second) {
        (void)fitted(tables.of(policy), model_heads(plan.traces[unit.trace], sequence));
      }
      if (policy.allocation() != Allocation::duo) continue;
      check_duo(policy.allocation_spec(), {.tokens = replay.budget, .most = unit.unit.num_tokens});
    }
  }
}

}  // namespace

std::size_t SweepPlan::num_replays() const {
  return std::accumulate(
      units.begin(), units.end(), std::size_t{0},
      [](std::size_t sum, const PlannedUnit& u) { return sum + u.replays.size(); });
}

std::size_t SweepPlan::num_remaining() const {
  return std::accumulate(
      units.begin(), units.end(), std::size_t{0},
      [](std::size_t sum, const PlannedUnit& u) { return sum + u.remaining.size(); });
}

void check_policy(const Spec& policy, const SweepRequest& request) {
  check_at_budget(policy, policy.rules({.budget = 1}), request, 1);
}

void open_traces(SweepRequest& request) {
  std::vector<Trace> opened(request.traces.begin(), request.traces.end());
  request.open_traces.insert(request.open_traces.begin(), opened.begin(), opened.end());
  request.traces.clear();
}

SweepPlan plan_sweep(SweepRequest request) {
  if (request.policies.empty() || request.budgets.empty()) {
    throw UsageError("a sweep takes at least one policy and one budget");
  }
  SweepPlan plan;
  plan.request = std::move(request);
  for (Spec& policy : plan.request.policies) {
    check_policy(policy, plan.request);
    policy = with_file_hashes(policy);
  }
  open_traces(plan.request);
  PlannedRules rules(plan.request);
  PlannedBudgets budgets(plan.request);
  for (const Trace& trace : plan.request.open_traces) add_trace(plan, rules, budgets, trace);
  check_schedules(plan);
  check_scores(plan);
  check_scorers(plan);
  check_splits(plan);
  mark_whole_layers(plan);
  keep_shard(plan, plan.request.shard);
  return plan;
}

std::map<std::string, std::size_t> skip_finished(SweepPlan& plan, const ResultStore& store) {
  std::map<std::string, std::size_t> of_another_code;
  for (PlannedUnit& unit : plan.units) {
    Result row;
    set_key(plan, unit, unit.replays.front(), row);
    const auto finished = store.finished(row);
    if (finished.empty()) continue;
    const auto layers = store.finished_layers(row);
    std::erase_if(unit.remaining, [&](const PlannedReplay& replay) {
      describe(plan, unit, replay, row);
      const auto found = finished.find({row.policy, row.budget});
      if (found == finished.end()) return false;
      if (found->second == row.policy_code) {
        if (!unit.in_whole_layer) return true;
        const auto layer = layers.find({row.policy, row.budget});
        return layer != layers.end() && layer->second == row.policy_code;
      }
      ++of_another_code[plan.policy_of(replay).policy().name];
      return false;
    });
  }
  return of_another_code;
}

bool update_labels(const SweepPlan& plan, ResultStore& store) {
  std::vector<Result> labelled;
  for (const PlannedUnit& unit : plan.units) {
    for (const PlannedReplay& replay : unit.replays) {
      if (plan.policy_of(replay).label().empty()) continue;
      describe(plan, unit, replay, labelled.emplace_back());
    }
  }
  return !labelled.empty() && store.set_labels(labelled) > 0;
}

void set_key(const SweepPlan& plan, const PlannedUnit& unit, const PlannedReplay& replay,
             Result& result) {
  result.trace_id = plan.traces[unit.trace].id();
  result.sequence = unit.unit.name.sequence;
  result.layer = unit.unit.name.layer;
  result.kv_head = unit.unit.name.kv_head;
  result.policy = plan.policy_of(replay).text();
  result.budget = replay.budget;
  result.mode = plan.mode();
  result.seed = plan.request.seed;
}

void describe(const SweepPlan& plan, const PlannedUnit& unit, const PlannedReplay& replay,
              Result& result) {
  set_key(plan, unit, replay, result);
  result.trace = plan.traces[unit.trace].file().string();
  result.budget_request = replay.budget_request;
  result.kvsim_version = version();
  const std::string& label = plan.policy_of(replay).label();
  if (!label.empty()) result.label = label;
  result.policy_code = policy_code(plan.policy_of(replay));
}

}  // namespace kvsim
