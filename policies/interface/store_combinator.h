#pragma once

#include <string>

#include "policies/interface/policy_info.h"

namespace kvsim {

/// Why a combinator that sets Rules::store cannot change a policy; empty: it can.
inline std::string why_not_stored(const PolicyInfo& policy, const Rules& rules) {
  if (policy.make_estimator != nullptr) return "an estimator has entries of its own";
  if (rules.selects) return "it evicts nothing, it selects";
  if (rules.rest) return "the entry of +rest is made of tokens as recorded";
  if (rules.stored || rules.store) return "its vectors are stored in another form already";
  return "";
}

}  // namespace kvsim
