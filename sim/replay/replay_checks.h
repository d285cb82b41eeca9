#pragma once

#include <string>

#include "policies/registry/spec.h"
#include "sim/attention/mode.h"
#include "sim/outputs/measure_options.h"

namespace kvsim {

/// Throws UsageError if the mode is prefill and the unit has no prompt or nothing after it.
void check_mode(const std::string& sequence, int num_tokens, int prompt_length, Mode mode);

/// Throws UsageError if there is no reference and the policy, or what it is combined with, needs
/// the full attention. Rules may depend on the budget.
void check_reference(const Spec& policy, const MeasureOptions& measuring, int budget = 1);

/// Throws UsageError if the interval is kNeverEvict in stream mode, not 1 for an estimator, whose
/// vectors do not leave by evictions, or not kNeverEvict for a policy that scores the prompt alone.
void check_interval(const Spec& policy, Mode mode, int eviction_interval, int budget = 1);

/// The column `mode`: "stream" or "prefill", then what is not the default: "stream:every=10",
/// "prefill:interval=never,reference=none".
std::string mode_name(Mode mode, int eviction_interval = 1, const MeasureOptions& measuring = {});

}  // namespace kvsim
