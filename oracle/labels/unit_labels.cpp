#include "oracle/labels/unit_labels.h"

#include "policies/registry/spec.h"
#include "sim/attention/attention_blocks.h"

namespace kvsim {
namespace {

void add_attention(const Future& unit, AttentionLabeller& labeller) {
  std::vector<float> mean(static_cast<std::size_t>(unit.num_tokens()));
  for_each_block(unit.unit(), unit.num_tokens(), unit.backend(), [&](const AttentionBlock& block) {
    unit.check_interrupted();
    for (int row = 0; row < block.num_steps; ++row) {
      const int step = block.first_step + row;
      const std::span<float> attention(mean.data(), static_cast<std::size_t>(step) + 1);
      group_mean(block, row, attention);
      labeller.add(step, attention);
    }
  });
}

// The oracle of the registry, so that a replay of `optimal` and its labels cannot differ.
std::vector<Plan> optimal_plans(const Future& unit, std::span<const int> budgets) {
  const Spec optimal("optimal");
  const std::vector<int> tokens(budgets.begin(), budgets.end());
  const auto planner = optimal.policy().make_planner(optimal.params());
  return std::move(planner->plan({&unit, 1}, {&tokens, 1}).front());
}

}  // namespace

UnitLabels label_unit(const Future& unit, std::span<const int> budgets, int block) {
  AttentionLabeller labeller(unit, block);
  UnitLabels labels;
  labels.num_blocks = labeller.num_blocks();
  if (budgets.empty()) {
    add_attention(unit, labeller);
  } else {
    for (int step = 0; step < unit.num_tokens(); ++step) {
      labeller.add(step, unit.attention().row(step));
    }
    unit.check_interrupted();
    labels.optimal = optimal_plans(unit, budgets);
  }
  labels.attention = std::move(labeller).finish();
  return labels;
}

}  // namespace kvsim
