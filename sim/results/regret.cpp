#include "sim/results/regret.h"

#include <fmt/format.h>

#include "policies/registry/registry.h"
#include "policies/registry/spec.h"
#include "policies/registry/standard_policies.h"
#include "sim/protocol/protocol.h"

namespace kvsim {
namespace {

// Recall comes from attention in single precision.
constexpr double kRounding = 1e-6;

/// Whether caches evict several tokens at a time: "stream:interval=4". With interval=never they
/// evict once, and one that evicts more then loses more.
bool has_interval(const std::string& mode) {
  const Protocol protocol = Protocol::of_name(mode);
  return !protocol.evicts_every_step() && !protocol.evicts_once();
}

/// Whether the policy's caches may hold fewer tokens than the budget after an eviction. Under an
/// interval they then evict at other steps than the optimum.
bool may_fall_below_budget(const Rules& rules) {
  return rules.drop > 1 || rules.prunes || rules.scope == Scope::model;
}

/// Whether the allocation gives a head the same share under both. Some split what
/// a policy's protected newest tokens leave, adaptive and cake by the policy's own votes.
bool have_same_split(const Spec& bound, const Spec& policy, const Rules& rules) {
  if (bound.allocation_spec().text() != policy.allocation_spec().text()) return false;
  if (!follows_policy(policy.allocation())) return true;
  const std::optional<ScoreRule>& rule = rules.score ? rules.score : rules.wrapped_score;
  const bool votes = rule && rule->kind == ScoreRule::Kind::votes;
  return rules.protect_newest == 0 && !votes;
}

bool is_bound_for(const Spec& bound, const Result& row) {
  const Spec policy(row.policy);
  const Rules rules = policy.rules({.budget = static_cast<int>(row.budget)});
  if (!have_same_split(bound, policy, rules) || !rules.bounded || rules.selects) return false;
  if (rules.keeps_evicted()) return false;  // steps attend to more than the budget
  return bound.rules({}).selects || !has_interval(row.mode) || policy.is_oracle() ||
         !may_fall_below_budget(rules);
}

void check_against(const Result& bound, const std::vector<Result>& rows) {
  if (!bound.attention_recall) return;
  const Spec bounding(bound.policy);
  for (const Result& row : rows) {
    if (row.budget != bound.budget || row.attention_recall <= *bound.attention_recall + kRounding ||
        !is_bound_for(bounding, row)) {
      continue;
    }
    throw BoundExceeded(
        fmt::format("{} layer {} KV head {} at budget {}: {} retains {:.7f} of the attention and "
                    "{} no more than {:.7f}, which bounds it; please report this, with the trace",
                    row.sequence, row.layer, row.kv_head, row.budget, row.policy,
                    *row.attention_recall, bound.policy, *bound.attention_recall),
        row, bound);
  }
}

/// The part of a canonical spec from '@' on.
std::string allocation_of(const std::string& table) {
  return fmt::format(
      "CASE instr({0}.policy, '@') WHEN 0 THEN '' ELSE substr({0}.policy, instr({0}.policy, '@')) "
      "END",
      table);
}

std::string join_on_unit(const std::string& table) {
  std::string conditions;
  for (const char* column :
       {"trace_id", "sequence", "layer", "kv_head", "budget", "mode", "seed"}) {
    if (!conditions.empty()) conditions += " AND ";
    conditions += fmt::format("{0}.{1} = r.{1}", table, column);
  }
  return conditions;
}

std::string is_oracle(const std::string& table) {
  std::vector<std::string> patterns;
  for (const PolicyInfo& policy : policies()) {
    if (!policy.is_reference()) continue;
    patterns.push_back(fmt::format("{0}.policy || ':' GLOB '{1}[:+@]*'", table, policy.name));
  }
  return fmt::format("({})", fmt::join(patterns, " OR "));
}

// In the canonical spec of an oracle with a choice of costs, and in that of attention lost.
constexpr const char* kAnyCost = "cost=";
constexpr const char* kAttentionLost = "cost=mass,weight=uniform";

/// Whether an oracle's cost is another than the attention lost, in SQL.
std::string has_other_cost(const std::string& table) {
  return fmt::format("({0}.policy GLOB '*{1}*' AND {0}.policy NOT GLOB '*{2}*')", table, kAnyCost,
                     kAttentionLost);
}

}  // namespace

TableSchema regret_schema() {
  TableSchema schema{"regret", "a row of replay and an oracle on the same unit at the same budget",
                     "", key_columns(), false};
  for (ColumnSchema column :
       {text_column("oracle", "canonical spec of the oracle"), result_column("attention_recall"),
        real_column("oracle_recall", "attention_recall of the oracle, 0..1").in(ranges::kShare),
        real_column("regret", "oracle_recall - attention_recall")
            .in(ranges::kDifference, Preferred::lower)
            .open_loop(),
        real_column(
            "gap_closed",
            "(recall - window) / (optimal - window); NULL: one of the two is missing. Not to be "
            "averaged: it is unbounded where the gap is small; take the ratio of mean recalls")
            .in(ranges::kNumber, Preferred::higher)
            .open_loop()}) {
    schema.columns.push_back(std::move(column));
  }
  return schema;
}

void check_bounds(const std::vector<Result>& rows) {
  for (const Result& row : rows) {
    if (Spec::stored(row.policy).bounds_recall()) check_against(row, rows);
  }
}

bool has_regret(const Spec& policy) {
  const std::string text = policy.text();
  return !policy.is_oracle() || text.find(kAnyCost) == std::string::npos ||
         text.find(kAttentionLost) != std::string::npos;
}

std::string regret_view() {
  return fmt::format(
      "CREATE VIEW regret AS SELECT r.trace_id, r.sequence, r.layer, r.kv_head, r.policy, "
      "r.budget, "
      "r.mode, r.seed, o.policy AS oracle, r.attention_recall, o.attention_recall AS "
      "oracle_recall, "
      "o.attention_recall - r.attention_recall AS regret, "
      "(r.attention_recall - w.attention_recall) / "
      "NULLIF(best.attention_recall - w.attention_recall, 0) AS gap_closed "
      "FROM replay AS r JOIN replay AS o ON {} AND {} AND NOT {} AND NOT ({} AND {}) AND {} = {} "
      "LEFT JOIN replay AS w ON {} AND w.policy = '{}' || {} "
      "LEFT JOIN replay AS best ON {} AND best.policy = '{}' || {} "
      "ORDER BY r.trace_id, r.sequence, r.layer, r.kv_head, r.policy, r.budget, r.mode, r.seed, "
      "o.policy",
      join_on_unit("o"), is_oracle("o"), has_other_cost("o"), is_oracle("r"), has_other_cost("r"),
      allocation_of("o"), allocation_of("r"), join_on_unit("w"), baseline().text(),
      allocation_of("r"), join_on_unit("best"), recall_optimum(), allocation_of("r"));
}

}  // namespace kvsim
