#include "sim/curve/oracle_curve.h"

#include <algorithm>

#include "policies/registry/standard_policies.h"
#include "sim/attention/attention_blocks.h"
#include "sim/protocol/budget.h"
#include "sim/replay/planner.h"

namespace kvsim {
namespace {

/// Sums the attention to each token, and subtracts per budget what it received while in the cache.
class ScheduleLosses {
 public:
  ScheduleLosses(std::span<const Plan> plans, std::size_t n) : plans_(plans) {
    attention_.assign(n, 0);
    accesses_.assign(n, 0);
    attention_before_eviction_.assign(plans.size(), 0);
    accesses_before_eviction_.assign(plans.size(), 0);
    next_evicted_.assign(plans.size(), 0);
    evicted_.resize(plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const Schedule& schedule = plans[i].schedule;
      std::vector<std::int32_t>& tokens = evicted_[i];
      tokens.reserve(static_cast<std::size_t>(
          std::count_if(schedule.begin(), schedule.end(),
                        [&](std::int32_t step) { return step < static_cast<std::int32_t>(n); })));
      for (std::size_t token = 0; token < n; ++token) {
        if (schedule[token] < static_cast<std::int32_t>(n)) {
          tokens.push_back(static_cast<std::int32_t>(token));
        }
      }
      std::sort(tokens.begin(), tokens.end(), [&](std::int32_t a, std::int32_t b) {
        return std::pair(schedule[a], a) < std::pair(schedule[b], b);
      });
    }
  }

  /// Adds the attention of one query head at a measured step.
  void add_step(const HeadAttention& head, int row, int step) {
    const float* weight = head.weight.row(row).data();
    const double sum = head.weight_sum[row];
    for (int token = 0; token <= step; ++token) {
      attention_[token] += weight[token] / sum;
      accesses_[token] += is_pivotal(weight[token], sum, step) ? 1 : 0;
    }
  }

  /// The tokens that a schedule evicts after the step were in that budget's cache so far.
  void evict_after(int step) {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      for (; next_evicted_[i] < evicted_[i].size(); ++next_evicted_[i]) {
        const std::int32_t token = evicted_[i][next_evicted_[i]];
        if (plans_[i].schedule[token] != step) break;
        attention_before_eviction_[i] += attention_[token];
        accesses_before_eviction_[i] += accesses_[token];
      }
    }
  }

  void finish(Curve& curve, double count) const {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      double attention = -attention_before_eviction_[i];
      std::int64_t accesses = -accesses_before_eviction_[i];
      for (const std::int32_t token : evicted_[i]) {
        attention += attention_[token];
        accesses += accesses_[token];
      }
      curve.attention_loss.push_back(std::max(0.0, attention / count));
      curve.token_misses.push_back(accesses);
    }
  }

 private:
  std::span<const Plan> plans_;
  std::vector<double> attention_;                   // per token
  std::vector<std::int64_t> accesses_;              // per token: steps at which it was pivotal
  std::vector<std::vector<std::int32_t>> evicted_;  // per budget: tokens, in the order of eviction
  std::vector<std::size_t> next_evicted_;           // per budget: index into evicted_
  std::vector<double> attention_before_eviction_;   // per budget: summed over evicted tokens
  std::vector<std::int64_t> accesses_before_eviction_;
};

void add_errors(const Unit& unit, std::span<const Plan> plans, const CurveOptions& options,
                const Backend& backend, Curve& curve) {
  std::vector<Configuration> configurations;
  for (const int budget : options.error_budgets) {
    const auto at = std::lower_bound(curve.budgets.begin(), curve.budgets.end(), budget);
    const Plan& plan = plans[static_cast<std::size_t>(at - curve.budgets.begin())];
    configurations.push_back({scheduled(), budget, {}, {plan.schedule}});
  }
  if (configurations.empty()) return;
  const ReplayOptions replay_options{
      .protocol = options.protocol, .seed = options.seed, .interrupted = options.interrupted};
  const std::vector<Outcome> outcomes = replay(unit, configurations, replay_options, backend);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Result& result = outcomes[i].result;
    curve.output_error[configurations[i].budget] = {
        *result.output_error_mean,     *result.output_error_p50,
        *result.output_error_p95,      *result.output_error_max,
        result.bound_mean.value_or(0), result.bound_violations.value_or(0)};
  }
}

}  // namespace

Curve oracle_curve(const Unit& unit, const Spec& oracle, const CurveOptions& options,
                   const Backend& backend) {
  std::vector<Plan> plans;
  {
    const Future future(unit, eviction_steps(unit, options.protocol), backend, options.interrupted);
    const auto planner = oracle.policy().make_planner(oracle.params());
    plans = planner->plan_every_budget(future);
  }
  const int prompt = options.protocol.first_measured(unit.prompt_length);
  ScheduleLosses losses(plans, static_cast<std::size_t>(unit.num_tokens()));
  Curve curve;
  curve.budgets = every_budget(options.protocol, unit.num_tokens());
  curve.steps = unit.num_tokens() - prompt;
  for_each_block(unit, unit.num_tokens(), backend, [&](const AttentionBlock& block) {
    for (int row = 0; row < block.num_steps; ++row) {
      const int step = block.first_step + row;
      for (const HeadAttention& head : block.heads) {
        if (step < prompt) break;
        losses.add_step(head, row, step);
        curve.token_accesses += head.num_pivotal[row];
      }
      losses.evict_after(step);
    }
  });
  losses.finish(curve, static_cast<double>(curve.steps) * unit.group_size());
  add_errors(unit, plans, options, backend, curve);
  if (options.schedules) {
    for (Plan& plan : plans) curve.evicted_after.push_back(std::move(plan.schedule));
  }
  return curve;
}

}  // namespace kvsim
