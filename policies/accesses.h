#pragma once

#include "policies/interface/policy_info.h"

namespace kvsim {

/// The parameter `score` of lru and lfu. A token is accessed if its attention exceeds an even share
/// (ScoredStep::is_access): 1 / |A_t| of cached attention, 1 / (t + 1) of full attention.
inline Param access_param() {
  return Param::choice("score", {"cached", "full"},
                       "access by attention over the cache, or over the whole text");
}

/// PolicyInfo::nests of lru and lfu. Cached attention depends on the budget, full attention does
/// not.
inline bool access_nests(const Params& params) { return params.choice("score") == "full"; }

}  // namespace kvsim
