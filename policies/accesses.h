#pragma once

#include "policies/params.h"
#include "policies/policy.h"

namespace kvsim {

/// Whether the token in `slot` was accessed at this step, as recency and frequency policies count
/// it: it has just arrived, or it holds more than an even share of the attention. Over the cache
/// that share is 1 / |A_t|; over the whole text (`full`), 1 / (t + 1).
inline bool is_access(const Step& step, std::size_t slot, bool full) {
  if (step.tokens[slot] == step.index) return true;
  const auto sharers = static_cast<float>(full ? step.index + 1 : step.tokens.size());
  const float attention = full ? step.full_attention[slot] : step.attention[slot];
  return attention > 1 / sharers;
}

/// The parameter that selects between the two.
inline Param access_param() {
  return Param::choice("score", {"cached", "full"},
                       "access by attention over the cache, or over the whole text");
}

}  // namespace kvsim
