#pragma once

#include "policies/policy.h"
#include "traces/unit.h"

namespace kvsim {

/// The score that a policy whose rule is ScoreRule::Kind::newest gives a token when it arrives.
double arrival_score(Policy& policy, const Unit& unit, std::int32_t token);

}  // namespace kvsim
