#pragma once

#include <string>
#include <vector>

#include "policies/interface/policy_info.h"

namespace kvsim {

/// What is needed, by the names of the trace format: "spans", "output_projection",
/// "output_score_grad".
std::vector<std::string> names_of(const TraceNeeds& needs);

/// What a policy needs of a trace, and which of its settings need it: "spans (weight=spans)".
/// Empty: it needs nothing.
std::string needs_note(const PolicyInfo& policy);

}  // namespace kvsim
