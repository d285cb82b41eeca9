#include "sim/curve/curve.h"

#include <fmt/format.h>

#include "policies/registry/registry.h"
#include "sim/attention/future_attention.h"
#include "sim/attention/rescaled_step.h"
#include "sim/base/errors.h"
#include "sim/base/interrupt.h"
#include "sim/curve/block_differences.h"
#include "sim/curve/nested_replay.h"
#include "sim/curve/oracle_curve.h"
#include "sim/kernels/attention_kernels.h"
#include "sim/kernels/score_kernels.h"
#include "sim/protocol/budget.h"
#include "sim/replay/replay_checks.h"

namespace kvsim {
namespace {

/// The mean attention of the query heads at one step, [step + 1], rounded as in PolicyReplay.
void average_attention(const AttentionBlock& block, int row, std::vector<float>& mean) {
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

/// Once a cache is full, one page leaves for each that begins: it holds its budget again when that
/// one is complete.
void count_held_tokens(const Unit& unit, const Protocol& protocol, Curve& curve) {
  const Paging& paging = protocol.paging;
  const int last = unit.num_tokens() - 1;
  const int first = eviction_steps(unit, protocol).first_eviction();
  const int page_end = unit.num_tokens() / paging.size * paging.size - 1;  // of the last complete
  for (const int budget : curve.budgets) {
    const auto evicted_by = [&](int step) {
      return std::max(0, paging.page_of(step) + 1 - budget / paging.size) * paging.size;
    };
    const auto held_after = [&](int step) { return step + 1 - evicted_by(step); };
    const int at_end = held_after(last);
    curve.evictions.push_back(evicted_by(last));
    curve.peak_tokens.push_back(page_end < first ? at_end : std::max(at_end, held_after(page_end)));
  }
}

void replay_all(const Unit& unit, std::span<const std::unique_ptr<NestedReplay>> replays,
                const CurveOptions& options, const Backend& backend) {
  const auto pass = backend.attend(unit);
  const Outputs outputs =
      all_budgets_are_cheaper(options.error_budgets) ? Outputs::required : Outputs::optional;
  std::vector<float> full_attention;
  AttentionBlock block;
  for (int first = 0; first < unit.num_tokens(); first += kBlockSteps) {
    check_interrupted(options.interrupted);
    pass->compute(first, std::min(kBlockSteps, unit.num_tokens() - first), outputs, block);
    for (int row = 0; row < block.num_steps; ++row) {
      poll_interrupt();
      average_attention(block, row, full_attention);
      for (const auto& replay : replays) replay->advance(block, row, full_attention);
    }
    for (const auto& replay : replays) {
      poll_interrupt();
      replay->finish_block(block);
    }
  }
}

}  // namespace

std::vector<Curve> curves_of(const Unit& unit, std::span<const Spec> policies,
                             const CurveOptions& options, const Backend& backend) {
  const InterruptScope scope(options.interrupted);
  check_text(options.protocol, unit.name.sequence, unit.num_tokens(), unit.prompt_length);
  std::unique_ptr<MeanCentredValues> values;
  if (!options.error_budgets.empty()) values = std::make_unique<MeanCentredValues>(unit);
  std::vector<std::unique_ptr<NestedReplay>> replays;
  for (const Spec& policy : policies) {
    check_has_curve(policy);
    check_protocol(options.protocol, policy);
    if (policy.is_oracle()) continue;
    replays.push_back(std::make_unique<NestedReplay>(policy, unit, values.get(), options));
  }
  if (!replays.empty()) replay_all(unit, replays, options, backend);
  std::vector<Curve> curves;
  auto replay = replays.begin();
  for (const Spec& policy : policies) {
    curves.push_back(policy.is_oracle() ? oracle_curve(unit, policy, options, backend)
                                        : std::move(**replay++).finish());
    count_held_tokens(unit, options.protocol, curves.back());
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
    if (policy.origin == "Python") continue;  // as in every_spec()
    if (Spec(policy).nests()) {
      specs.emplace_back(policy);
    } else if (!policy.nests_with.empty()) {
      specs.emplace_back(policy.name + ':' + policy.nests_with);
    }
  }
  return specs;
}

}  // namespace kvsim
