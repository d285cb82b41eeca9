#pragma once

#include "policies/interface/policy.h"
#include "traces/unit.h"

namespace kvsim {

/// The score of a token when it arrives, by a policy whose rule is ScoreRule::Kind::newest.
double arrival_score(Policy& policy, const Unit& unit, std::int32_t token);

}  // namespace kvsim
