#include "sim/sweep/shards/job_cost.h"

#include <algorithm>
#include <map>

#include "sim/sweep/shards/unit_cost.h"

namespace kvsim {
namespace {

// All figures are nanoseconds; README.md says how they were measured.

using Count = std::int64_t;

constexpr Count kStep = 500;           // of a configuration
constexpr Count kPythonStep = 10'000;  // of a policy of Python

/// A measured allocation looks at every unit of the sequence first.
Count profile(const UnitSizes& unit) { return 10 * unit.pairs() * unit.group; }

/// Per token that a step of the configuration attends to.
Count per_attended(const Spec& policy, const Rules& rules, const UnitSizes& unit,
                   bool has_reference) {
  Count each = 0;
  if (policy.is_estimator()) {
    each = 35 * unit.group;
  } else if (rules.bounded) {
    each = rules.score || policy.is_oracle() ? 1 + unit.group : 8 + 3 * unit.group;
  }
  if (!rules.is_exact()) each += unit.group * (20 + unit.dims() / 8);
  if (!has_reference) each += unit.group * (rules.bounded ? 12 : 2);  // logits of its own
  return each;
}

/// The cost of one configuration, without the work that all configurations share.
Count replaying(const Spec& policy, const Rules& rules, const UnitSizes& unit, Count held,
                const Protocol& protocol) {
  Count sum = kStep * unit.tokens +
              unit.attended(held) * per_attended(policy, rules, unit, protocol.has_reference());
  if (rules.selects) sum += unit.pairs() * 20 * (1 + unit.group);
  const Count covariances = rules.remembered.covariances;
  sum +=
      covariances * (unit.tokens - unit.steps) * unit.group * unit.head_dim * unit.head_dim * 3 / 2;
  if (unit.hidden > 0) {  // the product with the output projection
    const Count measured =
        protocol.samples > 0 ? protocol.samples : unit.steps / protocol.error_stride;
    sum += measured * unit.group * unit.value_dim * unit.hidden / 50;
  }
  if (policy.policy().origin == "Python") sum += kPythonStep * unit.tokens;
  const TimeEstimate scoring = policy.policy().scoring_cost;
  return scoring == nullptr ? sum : sum + scoring(policy.params(), unit, held);
}

/// The text that an oracle plans which knows pages: its tokens are the pages.
UnitSizes in_pages(UnitSizes unit, const Paging& paging) {
  unit.tokens = paging.pages_for(static_cast<int>(unit.tokens));
  unit.steps = paging.pages_for(static_cast<int>(unit.steps));
  return unit;
}

/// The plan of an oracle for one budget. `planned` is in pages.
Count planning_budget(const Spec& policy, const UnitSizes& unit, const UnitSizes& planned,
                      Count held) {
  const TimeEstimate cost = policy.policy().planning_cost;
  if (cost != nullptr) return cost(policy.params(), unit, held);
  if (!plans_by_auction(policy, static_cast<std::size_t>(planned.tokens))) return 0;
  return 12'000 * planned.tokens + 13 * planned.pairs() / 2;
}

/// What the caches of a configuration hold at most.
Count held_by(const SweepRequest& request, const PlannedReplay& replay, const Rules& rules,
              const UnitSizes& unit) {
  if (!rules.bounded) return unit.tokens;
  const Count held = request.protocol.most_held(replay.budget);
  return std::min({held, replay.budget + unit.steps, unit.tokens});
}

const PlannedUnit& first_planned(const SweepPlan& plan, const SweepJob& job) {
  const auto found = std::find_if(job.units.begin(), job.units.end(),
                                  [](const JobUnit& unit) { return unit.planned.has_value(); });
  return plan.units[*found->planned];
}

}  // namespace

std::int64_t estimated_nanoseconds(const SweepPlan& plan, const SweepJob& job) {
  const ReplayShape shape = replay_shape(plan, job);
  UnitSizes unit = unit_sizes(plan, first_planned(plan, job));
  unit.hidden = static_cast<Count>(shape.hidden);
  unit.gradients = static_cast<Count>(shape.gradient_samples);
  const Protocol& protocol = plan.request.protocol;
  Count sum = reading_nanoseconds(unit);
  const Count forms = 1 + static_cast<Count>(shape.stored_forms);
  if (protocol.has_reference()) sum += forms * reference_nanoseconds(unit, unit.pairs());
  if (protocol.samples > 0)
    sum += forms * reference_nanoseconds(unit, protocol.samples * unit.tokens);
  if (job.needs_profiles) sum += reading_nanoseconds(unit) + profile(unit);
  if (shape.oracles) sum += future_nanoseconds(unit);
  if (shape.losses) sum += 25 * unit.pairs() * unit.group;
  const UnitSizes planned = in_pages(unit, protocol.paging);
  std::map<std::size_t, Count> smallest;  // budget of each oracle, in pages
  for (const PlannedReplay& replay : job.replays) {
    const Spec& policy = plan.policy_of(replay);
    const Rules& rules = *replay.rules;
    const Count held = held_by(plan.request, replay, rules, unit);
    sum += replaying(policy, rules, unit, held, protocol);
    if (!policy.is_oracle()) continue;
    sum += planning_budget(policy, unit, planned, held);
    if (plans_by_auction(policy, static_cast<std::size_t>(planned.tokens))) continue;
    const Count pages = replay.budget / protocol.paging.size;
    Count& budget = smallest.emplace(replay.policy, pages).first->second;
    budget = std::min(budget, pages);
  }
  for (const auto& [policy, budget] : smallest) {
    sum += planning_nanoseconds(plan.request.policies[policy], planned, budget);
  }
  return sum * static_cast<Count>(job.units.size());
}

}  // namespace kvsim
