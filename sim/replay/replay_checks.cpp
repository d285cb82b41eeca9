#include "sim/replay/replay_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/base/errors.h"
#include "sim/protocol/measured_steps.h"

namespace kvsim {
namespace {

/// Why a policy cannot be replayed without the full attention, and what to do; empty: it can.
std::string why_reference_is_needed(const Spec& policy, int budget) {
  const Rules rules = policy.rules({.budget = budget});
  if (policy.is_oracle()) return "it plans with the attention of the whole text; leave it out";
  if (policy.is_estimator())
    return "its estimates are measured against the full attention; leave it out";
  if (rules.selects) return "it chooses by the attention to all tokens; leave it out";
  if (rules.sees_full_attention) {
    return "it scores by the attention to all tokens; take a score other than full";
  }
  if (rules.stored) {
    return "what +quant does shows only against the full attention of every step; leave it out";
  }
  if (rules.store) {
    return "what its store does to keys and values shows only against the full attention of every "
           "step; leave it out";
  }
  if (rules.rest) {
    return "what +rest does shows only against the full attention of every step; leave it out";
  }
  if (needs_measurement(policy.allocation())) {
    return "its budget is split by the full attention; use @pyramid, @uniform or a file";
  }
  return "";
}

/// How unevenly a sample meets the phases of an eviction interval: Kuiper's distance (1960) between
/// the phases of its steps and those of all steps, from 0 to 1.
double phase_distance(int num_steps, int samples, int eviction_interval) {
  const MeasuredSteps steps({.reference = Reference::sample, .samples = samples}, 0, num_steps);
  std::vector<double> more(static_cast<std::size_t>(eviction_interval));
  for (int step = 0; step < num_steps; ++step) {
    more[step % eviction_interval] += (steps.measures(step) ? 1.0 / samples : 0) - 1.0 / num_steps;
  }
  double sum = 0;
  double most = 0;
  double least = 0;
  for (const double of_phase : more) {
    sum += of_phase;
    most = std::max(most, sum);
    least = std::min(least, sum);
  }
  return most - least;
}

/// Whether a sample meets the phases about as unevenly as N steps drawn at random do, or more so.
/// The distance of those is sqrt(pi / (2 N)) on average; that of steps that drift over all phases
/// falls as 1 / N.
bool misses_phases(int num_steps, int samples, int eviction_interval) {
  if (eviction_interval == 1 || eviction_interval >= num_steps) return false;
  return phase_distance(num_steps, samples, eviction_interval) > 1 / std::sqrt(samples);
}

/// The number of samples, at least 2, that is nearest to a refused one and is not refused. All
/// steps are not.
int nearest_samples(int num_steps, int samples, int eviction_interval) {
  for (int apart = 1;; ++apart) {
    for (const int other : {samples + apart, samples - apart}) {
      if (other < 2 || other > num_steps) continue;
      if (!misses_phases(num_steps, other, eviction_interval)) return other;
    }
  }
}

void check_reference(const Protocol& protocol, const Spec& policy, int budget) {
  if (protocol.has_reference()) return;
  const std::string reason = why_reference_is_needed(policy, budget);
  if (reason.empty()) return;
  throw UsageError(fmt::format("--reference {} cannot replay {}: {}", protocol.options().reference,
                               policy.text(), reason));
}

void check_samples(const Protocol& protocol, const std::string& sequence, int num_steps) {
  if (protocol.reference != Reference::sample) return;
  const int samples = protocol.samples;
  const int interval = protocol.eviction_interval;
  if (samples > num_steps) {
    throw UsageError(
        fmt::format("--reference sample:{}: expected at most the {} measured steps of sequence "
                    "'{}'; use fewer, or --reference full",
                    samples, num_steps, sequence));
  }
  if (!misses_phases(num_steps, samples, interval)) return;
  throw UsageError(fmt::format(
      "--reference sample:{}: in sequence '{}' samples {}/{} = {:.6g} steps apart meet an "
      "--eviction-interval of {} nearly always at the same phases; use sample:{}, or another "
      "interval",
      samples, sequence, num_steps, samples, static_cast<double>(num_steps) / samples, interval,
      nearest_samples(num_steps, samples, interval)));
}

void check_prompt(const std::string& sequence, int num_tokens, int prompt_length) {
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

void check_interval(const Protocol& protocol, const Spec& policy, int budget) {
  if (protocol.evicts_once() && protocol.mode == Mode::stream) {
    throw UsageError(
        "--eviction-interval never: in stream mode there is no prompt to cut, so nothing would "
        "ever "
        "leave; use --mode prefill, or a number of tokens");
  }
  if (!protocol.evicts_every_step() && policy.is_estimator()) {
    throw UsageError(
        fmt::format("--eviction-interval cannot replay {}: an estimator holds samples and sums, "
                    "which do not leave by evictions; leave it out",
                    policy.text()));
  }
  const Rules rules = policy.rules({.budget = budget});
  const bool has_budget = rules.bounded || !rules.prunes || rules.ignores_interval;
  if (!protocol.evicts_every_step() && !protocol.evicts_once() && !has_budget) {
    throw UsageError(fmt::format(
        "--eviction-interval cannot replay {}: without a budget nothing says when it is "
        "exceeded; leave the interval out",
        policy.text()));
  }
  if (!protocol.evicts_once() && rules.prompt_only) {
    throw UsageError(
        fmt::format("{} scores a prompt and nothing after it, so a cache is cut once; use --mode "
                    "prefill --eviction-interval never",
                    policy.text()));
  }
}

/// Why caches of pages cannot be replayed under this policy; empty: they can.
std::string why_by_token(const Spec& policy, const Rules& rules) {
  if (policy.is_estimator()) return "an estimator holds samples and sums, which have no pages";
  if (rules.rest) return "+rest takes one token of the budget, which leaves no whole pages";
  if (rules.scope == Scope::model) {
    return "a token that leaves a layer leaves all later ones too, whatever their pages";
  }
  if (policy.allocation() != Allocation::uniform) {
    return "a split of the budget over heads does not come to whole pages";
  }
  if (policy.is_oracle() && !policy.plans_pages()) return "it plans token by token";
  return "";
}

void check_pages(const Protocol& protocol, const Spec& policy, int budget) {
  if (protocol.paging.is_by_token()) return;
  const std::string reason = why_by_token(policy, policy.rules({.budget = budget}));
  if (reason.empty()) return;
  throw UsageError(fmt::format("--page {} cannot replay {}: {}; leave one of them out",
                               protocol.paging.size, policy.text(), reason));
}

}  // namespace

void check_text(const Protocol& protocol, const std::string& sequence, int num_tokens,
                int prompt_length) {
  if (protocol.mode == Mode::prefill) check_prompt(sequence, num_tokens, prompt_length);
  check_samples(protocol, sequence, num_tokens - protocol.first_measured(prompt_length));
}

void check_protocol(const Protocol& protocol, const Spec& policy, int budget) {
  check_reference(protocol, policy, budget);
  check_interval(protocol, policy, budget);
  check_pages(protocol, policy, budget);
}

}  // namespace kvsim
