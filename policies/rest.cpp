// One more entry stands for all evicted tokens, so that what they held together is not lost: where
// attention is spread out, the output is close to a mean, and a mean is what the entry keeps. Its
// logit is the mean of theirs, since logits are linear in keys. The mean of their exponentials is
// larger (Jensen); corrections by the variance of the keys, by the attention that the tokens had,
// or by the mass at their eviction made output errors worse (rest.md).

#include <string>

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

void keep_rest(Rules& rules, const Params&, const Context&) { rules.rest = true; }

std::string why_not(const PolicyInfo& policy, const Rules& rules, const Params&) {
  if (policy.make_estimator != nullptr) return "an estimator has entries of its own";
  if (rules.selects) return "it evicts nothing, it selects";
  if (!rules.bounded && !rules.prunes) return "it evicts nothing";
  if (rules.stored) return "the entry is no token that +quant could round when it leaves";
  if (rules.store) return "the entry is made of tokens as recorded, not as they are stored";
  if (rules.slot_positions)
    return "with positions=slot the keys of evicted tokens have no position";
  return "";
}

}  // namespace

CombinatorInfo rest_combinator() {
  return {.name = "rest",
          .does =
              "one entry of the budget stands for all evicted tokens: their number, mean key "
              "and mean value",
          .source = "kvsim, policies/rest.md",
          .differences =
              "the entry is kept in fp64, and its number takes no bytes; layers with a "
              "sliding window are refused",
          .params = {},
          .change = keep_rest,
          .adds_entry = true,
          .why_not = why_not};
}

}  // namespace kvsim
