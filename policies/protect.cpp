// Reserves the first and the last part of the budget. Every comparison needs this control: Garcia
// ("Protection Is (Nearly) All You Need", 2026, arXiv 2605.18053, abstract) finds that protection
// dominates and that differences of scoring are secondary once both ends are guarded.

#include <algorithm>

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

void reserve(Rules& rules, const Params& params, const Context& context) {
  rules.protect_first = std::max(rules.protect_first, params.amount("first", context.budget));
  rules.protect_newest = std::max(rules.protect_newest, params.amount("last", context.budget));
}

}  // namespace

CombinatorInfo protect_combinator() {
  return {.name = "protect",
          .does = "the first and the newest tokens always stay",
          .source = "arXiv 2605.18053",
          .differences = "",
          .params = {Param::amount("first", "0.1", "first tokens of the text"),
                     Param::amount("last", "0.1", "newest tokens")},
          .change = reserve};
}

}  // namespace kvsim
