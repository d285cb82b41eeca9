#include "sim/replay/replay_checks.h"

#include <fmt/format.h>

#include "policies/parameters/errors.h"

namespace kvsim {
namespace {

/// Why a policy cannot be replayed without the full attention, and what to do; empty: it can.
std::string why_reference_is_needed(const Spec& policy, int budget) {
  const Rules rules = policy.rules({.budget = budget});
  if (policy.is_oracle()) return "it plans with the attention of the whole text; leave it out";
  if (policy.is_estimator())
    return "its estimates are made beside the full attention; leave it out";
  if (rules.selects) return "it chooses by the attention to all tokens; leave it out";
  if (rules.sees_full_attention) {
    return "it scores by the attention to all tokens; take a score other than full";
  }
  if (rules.stored) return "what +quant does shows only beside the full attention; leave it out";
  if (rules.slot_positions) return "keys stay at the positions of the text; use positions=text";
  if (needs_measurement(policy.allocation())) {
    return "its budget is split by the full attention; use @pyramid or @uniform";
  }
  return "";
}

}  // namespace

void check_reference(const Spec& policy, const MeasureOptions& measuring, int budget) {
  if (measuring.has_reference()) return;
  const std::string reason = why_reference_is_needed(policy, budget);
  if (reason.empty()) return;
  throw UsageError(fmt::format("--reference none cannot replay {}: {}", policy.text(), reason));
}

void check_mode(const std::string& sequence, int num_tokens, int prompt_length, Mode mode) {
  if (mode == Mode::stream) return;
  if (prompt_length == 0) {
    throw UsageError(fmt::format(
        "sequence '{}' has no prompt, so --mode prefill cannot replay it; use --mode stream",
        sequence));
  }
  if (prompt_length == num_tokens) {
    throw UsageError(fmt::format(
        "sequence '{}' ends with its prompt, so --mode prefill has no step to measure; use --mode "
        "stream",
        sequence));
  }
}

void check_interval(const Spec& policy, Mode mode, int eviction_interval, int budget) {
  if (eviction_interval == kNeverEvict && mode == Mode::stream) {
    throw UsageError(
        "--eviction-interval never: in stream mode there is no prompt to cut, so nothing would "
        "ever "
        "leave; use --mode prefill, or a number of tokens");
  }
  if (eviction_interval != 1 && policy.is_estimator()) {
    throw UsageError(
        fmt::format("--eviction-interval cannot replay {}: an estimator holds samples and sums, "
                    "which do not leave by evictions; leave it out",
                    policy.text()));
  }
  if (eviction_interval != kNeverEvict && policy.rules({.budget = budget}).prompt_only) {
    throw UsageError(
        fmt::format("{} scores a prompt and nothing after it, so a cache is cut once; use --mode "
                    "prefill --eviction-interval never",
                    policy.text()));
  }
}

std::string mode_name(Mode mode, int eviction_interval, const MeasureOptions& measuring) {
  std::vector<std::string> options;
  if (eviction_interval == kNeverEvict) {
    options.emplace_back("interval=never");
  } else if (eviction_interval != 1) {
    options.push_back(fmt::format("interval={}", eviction_interval));
  }
  if (measuring.error_stride != 1) {
    options.push_back(fmt::format("every={}", measuring.error_stride));
  }
  if (!measuring.has_reference()) options.emplace_back("reference=none");
  const std::string name = mode == Mode::stream ? "stream" : "prefill";
  return options.empty() ? name : fmt::format("{}:{}", name, fmt::join(options, ","));
}

}  // namespace kvsim
