#include "sim/core/measuring.h"

#include <fmt/format.h>

#include "policies/errors.h"
#include "policies/spec.h"
#include "sim/core/allocate.h"

namespace kvsim {
namespace {

/// Why a policy cannot be replayed without the full attention, and what could be; empty: it can.
std::string obstacle(const Spec& policy) {
  const Rules rules = policy.rules({});
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

bool needs_reference(const Spec& policy) { return !obstacle(policy).empty(); }

void check_reference(const Spec& policy, const Measuring& measuring) {
  if (measuring.has_reference()) return;
  const std::string reason = obstacle(policy);
  if (reason.empty()) return;
  throw UsageError(fmt::format("--reference none cannot replay {}: {}", policy.text(), reason));
}

}  // namespace kvsim
