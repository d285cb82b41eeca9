#include "sim/core/planned_curve.h"

#include <algorithm>
#include <numeric>

#include "sim/core/attention_blocks.h"
#include "sim/core/planner.h"

namespace kvsim {
namespace {

void check(const CurveOptions& options) {
  if (options.interrupted != nullptr && *options.interrupted) throw Interrupted("interrupted");
}

/// What tokens have been given so far, and the budgets that lose them on the way.
class Losses {
 public:
  explicit Losses(std::span<const Plan> plans) : plans_(plans) {
    const std::size_t n = plans.size();
    attention_.assign(n, 0);
    accesses_.assign(n, 0);
    before_attention_.assign(n, 0);
    before_accesses_.assign(n, 0);
    next_.assign(n, 0);
    leaving_.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      const Schedule& schedule = plans[i].schedule;
      std::vector<std::int32_t>& tokens = leaving_[i];
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

  /// What one query head gives to tokens at a measured step.
  void give(const HeadAttention& head, int row, int step) {
    const float* weight = head.weight.row(row).data();
    const double sum = head.weight_sum[row];
    for (int token = 0; token <= step; ++token) {
      attention_[token] += weight[token] / sum;
      accesses_[token] += is_pivotal(weight[token], sum, step) ? 1 : 0;
    }
  }

  /// What leaves after the step was still there to be given what it has so far.
  void leave(int step) {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      for (; next_[i] < leaving_[i].size(); ++next_[i]) {
        const std::int32_t token = leaving_[i][next_[i]];
        if (plans_[i].schedule[token] != step) break;
        before_attention_[i] += attention_[token];
        before_accesses_[i] += accesses_[token];
      }
    }
  }

  void finish(Curve& curve, double count) const {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      double attention = -before_attention_[i];
      std::int64_t accesses = -before_accesses_[i];
      for (const std::int32_t token : leaving_[i]) {
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
  std::vector<std::int64_t> accesses_;              // per token: how often it was pivotal
  std::vector<std::vector<std::int32_t>> leaving_;  // per budget, in the order in which they do
  std::vector<std::size_t> next_;                   // of these
  std::vector<double> before_attention_;            // per budget: given to them before they left
  std::vector<std::int64_t> before_accesses_;
};

void add_errors(const Unit& unit, std::span<const Plan> plans, const CurveOptions& options,
                const Backend& backend, Curve& curve) {
  std::vector<Configuration> configurations;
  for (const int budget : options.error_budgets) {
    configurations.push_back(
        {Spec(find_policy("schedule")), budget, {}, {plans[budget - 1].schedule}});
  }
  if (configurations.empty()) return;
  const ReplayOptions replay_options{
      .mode = options.mode, .seed = options.seed, .interrupted = options.interrupted};
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

Curve planned_curve(const Unit& unit, const Spec& oracle, const CurveOptions& options,
                    const Backend& backend) {
  std::vector<int> budgets(unit.num_tokens());
  std::iota(budgets.begin(), budgets.end(), 1);
  std::vector<Plan> plans;
  {
    const FutureAttention attention(unit, options.mode, backend);
    check(options);
    plans = oracle.policy().make_planner(oracle.params())->plan(attention, budgets);
  }
  const int prompt = options.mode == Mode::prefill ? unit.prompt_length : 0;
  Losses losses(plans);
  Curve curve;
  curve.steps = unit.num_tokens() - prompt;
  for_each_block(unit, unit.num_tokens(), backend, [&](const AttentionBlock& block) {
    check(options);
    for (int row = 0; row < block.num_steps; ++row) {
      const int step = block.first_step + row;
      for (const HeadAttention& head : block.heads) {
        if (step < prompt) break;
        losses.give(head, row, step);
        curve.token_accesses += head.num_pivotal[row];
      }
      losses.leave(step);
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
