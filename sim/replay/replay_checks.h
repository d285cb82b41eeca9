#pragma once

#include <string>

#include "policies/registry/spec.h"
#include "sim/attention/mode.h"
#include "sim/outputs/measure_options.h"

namespace kvsim {

/// Throws UsageError if the mode is prefill and the unit has no prompt or nothing after it.
void check_mode(const std::string& sequence, int num_tokens, int prompt_length, Mode mode);

/// Throws UsageError if the full attention of every step is not there and the policy, or what it is
/// combined with, needs it. Rules may depend on the budget.
void check_reference(const Spec& policy, const MeasureOptions& measuring, int budget = 1);

/// Throws UsageError if a sample has more steps than a sequence has measured ones, or if its
/// steps are so far apart that they meet the eviction interval nearly always at the same phases and
/// show caches as long after an eviction each time.
void check_samples(const std::string& sequence, int num_steps, int eviction_interval,
                   const MeasureOptions& measuring);

/// Throws UsageError if the interval is kNeverEvict in stream mode, not 1 for an estimator, whose
/// vectors do not leave by evictions, or not kNeverEvict for a policy that scores the prompt alone.
void check_interval(const Spec& policy, Mode mode, int eviction_interval, int budget = 1);

/// The column `mode`: "stream" or "prefill", then what is not the default: "stream:every=10",
/// "prefill:interval=never,reference=sample:64".
std::string mode_name(Mode mode, int eviction_interval = 1, const MeasureOptions& measuring = {});

}  // namespace kvsim
