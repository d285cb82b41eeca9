#include "sim/core/curve.h"

#include <fmt/format.h>

#include "policies/errors.h"
#include "sim/core/attention_kernels.h"
#include "sim/core/nested_replay.h"
#include "sim/core/planned_curve.h"
#include "sim/core/prefix_distances.h"
#include "sim/core/rescued_step.h"
#include "sim/core/score_kernels.h"

namespace kvsim {
namespace {

/// The mean over the query heads, as PolicyReplay shows it to policies.
void average(const AttentionBlock& block, int row, std::vector<float>& mean) {
  mean.assign(block.first_step + row + 1, 0);
  for (const HeadAttention& head : block.heads) {
    const auto num_heads = static_cast<double>(block.heads.size());
    add_attention({head.weight.row(row).data(), mean.size()},
                  attention_scale(head.weight_sum[row], num_heads), mean.data());
  }
}

std::string names_of_policies_with_curves() {
  std::vector<std::string> names;
  for (const PolicyInfo& policy : policies()) {
    const Spec spec(policy);
    if (spec.nests() || spec.plans_every_budget()) {
      names.push_back(policy.name);
    } else if (!policy.nests_with.empty()) {
      names.push_back(policy.name + ':' + policy.nests_with);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void replay_all(const Unit& unit, std::span<const std::unique_ptr<NestedReplay>> replays,
                const CurveOptions& options, const Backend& backend) {
  const auto pass = backend.attend(unit);
  const Outputs outputs = are_dense(options.error_budgets) ? Outputs::now : Outputs::can_wait;
  std::vector<float> full_attention;
  AttentionBlock block;
  for (int first = 0; first < unit.num_tokens(); first += kBlockSteps) {
    if (options.interrupted != nullptr && *options.interrupted) throw Interrupted("interrupted");
    pass->compute(first, std::min(kBlockSteps, unit.num_tokens() - first), outputs, block);
    for (int row = 0; row < block.num_steps; ++row) {
      average(block, row, full_attention);
      for (const auto& replay : replays) replay->advance(block, row, full_attention);
    }
    for (const auto& replay : replays) replay->finish_block(block);
  }
}

}  // namespace

std::vector<Curve> curves_of(const Unit& unit, std::span<const Spec> policies,
                             const CurveOptions& options, const Backend& backend) {
  check_mode(unit.name.sequence, unit.num_tokens(), unit.prompt_length, options.mode);
  std::unique_ptr<CentredValues> values;
  if (!options.error_budgets.empty()) values = std::make_unique<CentredValues>(unit);
  std::vector<std::unique_ptr<NestedReplay>> replays;
  for (const Spec& policy : policies) {
    check_has_curve(policy);
    if (policy.is_oracle()) continue;
    replays.push_back(std::make_unique<NestedReplay>(policy, unit, values.get(), options));
  }
  if (!replays.empty()) replay_all(unit, replays, options, backend);
  std::vector<Curve> curves;
  auto replay = replays.begin();
  for (const Spec& policy : policies) {
    curves.push_back(policy.is_oracle() ? planned_curve(unit, policy, options, backend)
                                        : std::move(**replay++).finish());
  }
  return curves;
}

void check_has_curve(const Spec& policy) {
  if (policy.nests() || policy.plans_every_budget()) return;
  throw UsageError(
      fmt::format("--policies: what {} keeps at one budget need not be part of what it keeps at "
                  "the next, so its "
                  "budgets cannot be followed all at once; use kvsim sweep, or one of these: {}",
                  policy.text(), names_of_policies_with_curves()));
}

std::vector<Spec> policies_with_curves() {
  std::vector<Spec> specs;
  for (const PolicyInfo& policy : policies()) {
    if (Spec(policy).nests()) {
      specs.emplace_back(policy);
    } else if (!policy.nests_with.empty()) {
      specs.emplace_back(policy.name + ':' + policy.nests_with);
    }
  }
  return specs;
}

}  // namespace kvsim
