#include "sim/sweep/shards/unit_cost.h"

namespace kvsim {
namespace {

constexpr std::int64_t kOpenUnit = 1'000'000;
constexpr std::int64_t kReadNumber = 6;

}  // namespace

UnitSizes unit_sizes(const SweepPlan& plan, const PlannedUnit& planned) {
  const SelectedUnit& unit = planned.unit;
  return {.tokens = unit.num_tokens,
          .steps = unit.num_tokens - plan.request.protocol.first_measured(unit.prompt_length),
          .group = unit.shape.group_size(),
          .head_dim = unit.shape.head_dim,
          .value_dim = unit.shape.value_dim};
}

std::int64_t reading_nanoseconds(const UnitSizes& unit) {
  const std::int64_t vectors = unit.group * unit.head_dim + unit.dims();
  const std::int64_t gradients = unit.gradients * unit.group * unit.value_dim;
  return kOpenUnit + kReadNumber * unit.tokens * (vectors + gradients);
}

std::int64_t reference_nanoseconds(const UnitSizes& unit, std::int64_t pairs) {
  return pairs * unit.group * (4 + unit.dims() / 64);
}

std::int64_t future_nanoseconds(const UnitSizes& unit) { return 12 * unit.pairs() * unit.group; }

std::int64_t planning_nanoseconds(const Spec& policy, const UnitSizes& unit, std::int64_t budget) {
  const TimeEstimate cost = policy.policy().joint_planning_cost;
  return cost == nullptr ? 0 : cost(policy.params(), unit, budget);
}

}  // namespace kvsim
