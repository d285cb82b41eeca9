#pragma once

#include "policies/registry.h"

namespace kvsim {

/// Which attention recency and frequency policies count accesses by (ScoredStep::is_access): an
/// even share of it is one of 1 / |A_t| or of 1 / (t + 1).
inline Param access_param() {
  return Param::choice("score", {"cached", "full"},
                       "access by attention over the cache, or over the whole text");
}

/// Over the cache, what counts as an access depends on how many tokens share the attention.
inline bool access_nests(const Params& params) { return params.choice("score") == "full"; }

}  // namespace kvsim
