#pragma once

#include <string>

#include "policies/registry/spec.h"
#include "sim/protocol/protocol.h"

namespace kvsim {

/// Throws UsageError if the protocol cannot replay a text: a prompt is missing or all of it, a
/// sample has more steps than are measured, or its steps are so far apart that they meet the
/// eviction interval nearly always at the same phases and show caches as long after an eviction
/// each time.
void check_text(const Protocol& protocol, const std::string& sequence, int num_tokens,
                int prompt_length);

/// Throws UsageError if the protocol cannot replay a policy: the full attention of every step is
/// not there and the policy, or what it is combined with, needs it; caches would never evict; an
/// estimator's vectors, which do not leave by evictions, would leave at intervals; or a policy that
/// scores the prompt alone would evict after it. Rules may depend on the budget.
void check_protocol(const Protocol& protocol, const Spec& policy, int budget = 1);

}  // namespace kvsim
